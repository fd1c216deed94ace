#include "exporter/processes/arguments.h"

#include <mutex>
#include <string>

#include "exporter/processes/process_reader.h"

namespace gpusnoop::processes {

namespace {

// One for the program: how long a user may keep it waiting is a limit for all of its threads.
struct Shared {
    std::mutex mutex;
    // The thread that counts waits, too, while its rings fill.
    ProcessReader reader{{.patience = std::chrono::milliseconds(50),
                          .of_user = std::chrono::milliseconds(150),
                          .patience_with_cpu = std::chrono::milliseconds(250)}};
};

Shared &shared() {
    static Shared all;
    return all;
}

}  // namespace

Result<std::string> arguments_of(std::uint32_t tgid) {
    constexpr std::size_t most = 8192;
    Shared &all = shared();
    const std::lock_guard lock(all.mutex);
    return all.reader.about(tgid, [&] {
        return all.reader.read_text("/proc/" + std::to_string(tgid) + "/cmdline", most);
    });
}

void rest_reader_of_arguments(std::chrono::steady_clock::duration unused) {
    Shared &all = shared();
    // Who asks has just used it.
    if (const std::unique_lock lock(all.mutex, std::try_to_lock); lock.owns_lock()) {
        all.reader.rest(unused);
    }
}

}  // namespace gpusnoop::processes
