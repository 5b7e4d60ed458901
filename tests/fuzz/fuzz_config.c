/* Any bytes as a configuration of aorta train: an error or a configuration that, written out, loads as the same. The
 * first byte says whether the rest is a YAML file, a JSON file or an override. */
#include "fuzz.h"
#include "train/options.h"

static aorta_status load_file(const char *name, const uint8_t *data, size_t size, struct aorta_train_options *options) {
    char path[FUZZ_PATH];
    fuzz_path(path, name);
    fuzz_write(path, data, size);
    aorta_status status = aorta_train_options_load(path, NULL, 0, options);
    unlink(path);
    return status;
}

static aorta_status load(const uint8_t *data, size_t size, struct aorta_train_options *options) {
    if (data[0] % 3 != 2) return load_file(data[0] % 3 ? "x.json" : "x.yaml", data + 1, size - 1, options);
    char *override = strndup((const char *)data + 1, size - 1);
    if (!override) abort();
    const char *const overrides[] = {override};
    aorta_status status = aorta_train_options_load(NULL, overrides, 1, options);
    free(override);
    return status;
}

static void write_json(const struct aorta_train_options *options, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_begin(&json, text, 2);
    aorta_config_write_json(&options->config, &json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    struct aorta_train_options options, again;
    aorta_status status = load(data, size, &options);
    if (status) {
        if (aorta_status_code(status) != AORTA_CONFIG || !*aorta_status_message(status)) abort();
        aorta_status_free(status);
        return 0;
    }
    aorta_status_free(aorta_train_options_check(&options, 1 + data[0] % 16));
    struct aorta_text first = {0}, second = {0};
    write_json(&options, &first);
    status = load_file("w.json", (const uint8_t *)first.data, first.length, &again);
    if (status) {
        fprintf(stderr, "what was written does not load: %s\n%s\n", aorta_status_message(status), first.data);
        abort();
    }
    write_json(&again, &second);
    if (strcmp(first.data, second.data) != 0) abort();
    aorta_text_free(&first);
    aorta_text_free(&second);
    aorta_train_options_free(&options);
    aorta_train_options_free(&again);
    return 0;
}
