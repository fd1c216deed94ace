// The process that forks the children which open, read and keep files of others. It has one thread
// and none of this process's descriptors (foreign_reader.h).
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <mutex>

#include "exporter/base/fd.h"
#include "exporter/base/result.h"
#include "exporter/system/foreign_reader_child.h"

namespace gpusnoop {

// There is one for this process, for any thread.
class ForkingProcess {
public:
    struct Child {
        pid_t pid;
        Fd process;
    };

    static ForkingProcess &of_this_process();
    ForkingProcess(const ForkingProcess &) = delete;
    ForkingProcess &operator=(const ForkingProcess &) = delete;

    Result<> start();
    // The child gets the descriptors that are not -1. If the process was killed, another one is
    // started first.
    Result<Child> fork_child(reader::Child kind, const std::array<int, 2> &descriptors,
                             std::chrono::milliseconds most);

private:
    ForkingProcess() = default;
    // Returns when the process and its children are gone, so that none of them outlives this
    // process. One that is stuck does: it does not delay the end.
    ~ForkingProcess();

    Result<> start_locked();
    Result<Child> ask(const reader::ForkRequest &request, const std::array<int, 2> &descriptors,
                      std::chrono::milliseconds most);
    void stop();
    void reap() const;

    std::timed_mutex mutex_;
    Fd socket_;
    pid_t pid_ = -1;
};

}  // namespace gpusnoop
