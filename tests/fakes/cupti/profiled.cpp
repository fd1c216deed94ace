// profiled STEP...: a program with a profiler in it, which does what it is told, step by step.
//
//   name COMM         of the process
//   allocate          makes a CUDA call, which a first CUDA call of a process is
//   subscribe, unsubscribe, finalize, enable KIND, disable KIND
//                     the calls of CUPTI
//   subscribe_v2      the newer function
//   subscribe_inside  cuptiSubscribe in the middle of a CUDA call, where injected profilers start
//   unsubscribe_inside, finalize_inside
//   unsubscribe_in_free  the same, in the middle of a cudaFree
//   crash             dies inside cuptiSubscribe, which cannot write its result
//   churn THREADS N   each of the threads subscribes and unsubscribes N times
//   exec              becomes this program again, by exec, which does the rest of the steps
//   wait              prints what the library counted, as "waiting K subscribers=S activities=A
//                     calls=C refused=R invalid=I", K counted from 1, and waits for SIGUSR1

#include "cudart/cudart.h"
#include "cupti/cupti.h"
#include "driver/core.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

class Profiled {
public:
    Profiled() {
        sigemptyset(&wake_);
        sigaddset(&wake_, SIGUSR1);
        sigprocmask(SIG_BLOCK, &wake_, nullptr);
    }

    // How many words the step took; -1: it is none.
    int run(const std::string &step, char **words, int count) {
        if (step == "name" && count > 0) {
            prctl(PR_SET_NAME, words[0]);
            return 1;
        }
        if ((step == "enable" || step == "disable") && count > 0) {
            const int kind = std::atoi(words[0]);
            (void)(step == "enable" ? cuptiActivityEnable(kind) : cuptiActivityDisable(kind));
            return 1;
        }
        if (step == "churn" && count > 1) {
            churn(std::atoi(words[0]), std::atoi(words[1]));
            return 2;
        }
        return run(step) ? 0 : -1;
    }

private:
    bool run(const std::string &step) {
        if (step == "allocate") {
            (void)allocate();
        } else if (step == "subscribe") {
            (void)cuptiSubscribe(&subscriber_, nullptr, nullptr);
        } else if (step == "subscribe_v2") {
            (void)cuptiSubscribe_v2(&subscriber_, nullptr, nullptr, nullptr);
        } else if (step == "crash") {
            (void)cuptiSubscribe(reinterpret_cast<void **>(sizeof(void *)), nullptr, nullptr);
        } else if (step == "unsubscribe") {
            (void)cuptiUnsubscribe(subscriber_);
        } else if (step == "finalize") {
            (void)cuptiFinalize();
        } else if (step == "wait") {
            wait();
        } else {
            return run_inside(step, "_inside", [] { (void)allocate(); }) ||
                   run_inside(step, "_in_free", [memory = allocate()] { (void)cudaFree(memory); });
        }
        return true;
    }
    // In the middle of a CUDA call.
    template <typename Call>
    bool run_inside(const std::string &step, const std::string &suffix, Call &&call) {
        if (!step.ends_with(suffix)) {
            return false;
        }
        inside_ = step.substr(0, step.size() - suffix.size());
        standin_set_hook([](const char *, void *self) { static_cast<Profiled *>(self)->in_call(); },
                         this);
        call();
        standin_set_hook(nullptr, nullptr);
        return true;
    }
    // The runtime's call and the driver's call inside it both have a middle.
    void in_call() {
        const std::string step = std::exchange(inside_, "");
        if (!step.empty()) {
            run(step);
        }
    }
    static void *allocate() {
        void *memory = nullptr;
        if (cudaMalloc(&memory, 4096) != standin::kSuccess) {
            std::fprintf(stderr, "profiled: no memory\n");
            std::exit(1);
        }
        return memory;
    }
    static void churn(int threads, int times) {
        std::vector<std::jthread> all;
        for (int i = 0; i < threads; ++i) {
            all.emplace_back([times] {
                for (int at = 0; at < times; ++at) {
                    void *subscriber = nullptr;
                    if (cuptiSubscribe(&subscriber, nullptr, nullptr) == CUPTI_IS_SUCCESS) {
                        (void)cuptiUnsubscribe(subscriber);
                    }
                }
            });
        }
    }
    void wait() {
        const struct standin_cupti_counts now = standin_cupti_get_counts();
        std::printf(
            "waiting %d subscribers=%llu activities=%llu calls=%llu refused=%llu "
            "invalid=%llu\n",
            ++waits_, now.subscribers, now.activities, now.calls, now.refused, now.invalid);
        std::fflush(stdout);
        int signal = 0;
        sigwait(&wake_, &signal);
    }

    sigset_t wake_{};
    int waits_ = 0;
    void *subscriber_ = nullptr;
    std::string inside_;
};

}  // namespace

int main(int argc, char **argv) {
    Profiled profiled;
    for (int at = 1; at < argc; ++at) {
        if (std::string(argv[at]) == "exec") {
            argv[at] = argv[0];
            execv("/proc/self/exe", argv + at);
            std::perror("exec");
            return 1;
        }
        const int words = profiled.run(argv[at], argv + at + 1, argc - at - 1);
        if (words < 0) {
            std::fprintf(stderr, "no such step: %s\n", argv[at]);
            return 2;
        }
        at += words;
    }
    return 0;
}
