/* What the CUDA programs here share: calls whose errors end the program, and a loop that times itself as steps.py does.
 */
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const auto status_ = (call);                                                                                   \
        if (status_ != 0) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)status_);                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

inline bool chosen(int argc, char **argv, const char *word) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], word) == 0) return true;
    return false;
}

inline int own_rank() {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? atoi(rank) : 0;
}

class Steps {
  public:
    explicit Steps(int count) : count_(count), warm_up_(count / 4 > 3 ? count / 4 : 3) {
        const char *gate = getenv("PEOPLE_GATE");
        if (!gate) return;
        char ready[4096];
        snprintf(ready, sizeof ready, "%s.ready%d", gate, own_rank());
        fclose(fopen(ready, "w"));
        while (access(gate, F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }

    /* Whether another step follows; measures between two synchronizations at the ends of three blocks of steps. */
    bool next() {
        if (done_ == warm_up_ || is_end()) measure();
        if (done_ == count_) write();
        return done_++ < count_;
    }

  private:
    bool is_end() const {
        const int rest = count_ - warm_up_;
        return done_ == warm_up_ + rest / 3 || done_ == warm_up_ + rest * 2 / 3 || done_ == count_;
    }

    void measure() {
        cudaDeviceSynchronize();
        const auto now = std::chrono::steady_clock::now();
        if (done_ > warm_up_)
            blocks_.push_back(std::chrono::duration<double, std::milli>(now - begin_).count() / (done_ - first_));
        first_ = done_;
        begin_ = std::chrono::steady_clock::now();
    }

    void write() const {
        const char *path = getenv("PEOPLE_TIMES");
        if (!path || own_rank() != 0) return;
        FILE *file = fopen(path, "w");
        fprintf(file, "{\"blocks_ms\": [%f, %f, %f], \"steps\": %d}\n", blocks_[0], blocks_[1], blocks_[2], count_);
        fclose(file);
    }

    int count_, warm_up_, done_ = 0, first_ = 0;
    std::chrono::steady_clock::time_point begin_;
    std::vector<double> blocks_;
};
