#include "cli/cli.h"

int main(int argc, char **argv) {
    return aorta_cli_run(argc, argv);
}
