// A process that is released has no probe in its memory: what is saved of it runs without the
// exporter.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/e2e/child.h"
#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/exporter.h"

using namespace harness;
namespace fs = std::filesystem;

namespace {

using ReleasedCode = std::vector<char>;

// A mapping of code of the file.
struct ReleasedMapping {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
};

ReleasedMapping code_of(pid_t pid, const fs::path &file) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        std::istringstream words(line);
        std::uint64_t start = 0;
        std::uint64_t end = 0;
        std::uint64_t offset = 0;
        char dash = 0;
        std::string rights;
        words >> std::hex >> start >> dash >> end >> rights >> offset;
        if (rights == "r-xp" && line.ends_with(file.string())) {
            return {start, end - start, offset};
        }
    }
    return {};
}

// What a checkpoint would save.
ReleasedCode saved_code(pid_t pid, const fs::path &file) {
    const ReleasedMapping mapping = code_of(pid, file);
    REQUIRE(mapping.bytes > 0);
    const gpusnoop::Fd memory(
        ::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    ReleasedCode code(mapping.bytes);
    REQUIRE(::pread(memory.get(), code.data(), code.size(), static_cast<off_t>(mapping.start)) ==
            static_cast<ssize_t>(code.size()));
    return code;
}

ReleasedCode code_in_file(pid_t pid, const fs::path &file) {
    const ReleasedMapping mapping = code_of(pid, file);
    const gpusnoop::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ReleasedCode code(mapping.bytes);
    (void)::pread(fd.get(), code.data(), code.size(), static_cast<off_t>(mapping.offset));
    return code;
}

using Callback = void (*)(void (*)(void *), void *);

Callback callback_in(const fs::path &library) {
    void *const handle = ::dlopen(library.c_str(), RTLD_NOW);
    return handle == nullptr ? nullptr
                             : reinterpret_cast<Callback>(::dlsym(handle, "calls_callback"));
}

// Ends as a process that is restored from this code and goes on: the signal that ends it, or 0.
int signal_of_restored(const fs::path &library, const ReleasedCode &code) {
    const TemporaryDirectory directory;
    const fs::path same = directory / "untraced.so";
    fs::copy_file(library, same);
    const pid_t restored = ::fork();
    REQUIRE(restored >= 0);
    if (restored == 0) {
        const Callback callback = callback_in(same);
        const ReleasedMapping mapping = code_of(::getpid(), same);
        auto *const text = reinterpret_cast<char *>(mapping.start);
        if (callback == nullptr || mapping.bytes != code.size() ||
            ::mprotect(text, code.size(), PROT_READ | PROT_WRITE) != 0) {
            ::_exit(1);
        }
        std::memcpy(text, code.data(), code.size());
        (void)::mprotect(text, code.size(), PROT_READ | PROT_EXEC);
        ::signal(SIGTRAP, SIG_DFL);
        callback([](void *) {}, nullptr);
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(restored, &status, 0) == restored);
    REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// A process that waits in a traced call until it is told to go on, and then makes one call for each
// file.
class WaitsInCall {
public:
    explicit WaitsInCall(const fs::path &library)
        : child_([this, library] { return run(library); }) {
        eventually("the call", [&] { return fs::exists(directory_ / "inside"); });
    }
    [[nodiscard]] pid_t pid() const { return child_.pid(); }
    void go_on() const {
        write_file(directory_ / "go", "");
        eventually("the call's end", [&] { return fs::exists(directory_ / "outside"); });
    }

private:
    static void wait_inside(void *self) {
        const auto &directory = static_cast<WaitsInCall *>(self)->directory_;
        write_file(directory / "inside", "");
        e2e::wait_for_file(directory / "go");
    }
    int run(const fs::path &library) {
        const Callback callback = callback_in(library);
        if (callback == nullptr) {
            return 1;
        }
        callback(&WaitsInCall::wait_inside, this);
        write_file(directory_ / "outside", "");
        e2e::pause_for_ever();
    }

    TemporaryDirectory directory_;
    e2e::Child child_;
};

HttpAnswer post(const Exporter &exporter, const std::string &path) {
    return http(exporter.port(), path, "POST");
}

}  // namespace

TEST_CASE("a process that is released can be saved, and is traced again when it is given back",
          "[e2e][modes]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const TemporaryDirectory directory;
    const fs::path library = directory / "libcalls.so.1";
    fs::copy_file(standin("libcalls.so.1"), library);
    const Exporter exporter(
        only_groups(mode) +
        "    calls: {libraries: [\"libcalls.so*\"], functions: [calls_callback]}\n");
    const e2e::MapsAsCode other(library);
    exporter.wait_until_attached_to(library);
    const WaitsInCall waiting(library);
    const std::string pid = std::to_string(waiting.pid());

    // What it saves while it is traced does not run without the exporter.
    const ReleasedCode traced = saved_code(waiting.pid(), library);
    CHECK(traced != code_in_file(waiting.pid(), library));
    CHECK(signal_of_restored(library, traced) == SIGTRAP);

    // It waits for the call for some seconds. That the thread is in one is seen in the same place,
    // whatever the mode.
    if (mode == "session") {
        const HttpAnswer early = post(exporter, "/-/release?pid=" + pid);
        CHECK(early.status == 409);
        CHECK(early.body.find("1 thread is in calls") != std::string::npos);
    }
    waiting.go_on();
    const HttpAnswer released = post(exporter, "/-/release?pid=" + pid + "&time=1m");
    INFO(released.body << exporter.log());
    CHECK(released.status == 200);
    CHECK(released.body.find("Released for 1m: no probe is left") == 0);
    const ReleasedCode saved = saved_code(waiting.pid(), library);
    CHECK(saved == code_in_file(waiting.pid(), library));
    CHECK(signal_of_restored(library, saved) == 0);
    // Nobody else brings the probes back.
    const e2e::MapsAsCode new_user(library);
    ::usleep(300'000);
    CHECK(saved_code(waiting.pid(), library) == saved);
    CHECK(exporter.times_attached_to(library) == 1);

    CHECK(exporter.scrape().sum("gpusnoop_discovery_released_processes") == 1);
    CHECK(post(exporter, "/-/give-back?pid=" + pid).body ==
          "Given back: 1 process. Libraries are attached to again.\n");
    CHECK(exporter.scrape().sum("gpusnoop_discovery_released_processes") == 0);
    eventually("the file to be attached to again",
               [&] { return exporter.times_attached_to(library) == 2; });
    CHECK(saved_code(waiting.pid(), library) != saved);
}

TEST_CASE("a release ends with its time and with its process", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    const fs::path library = directory / "libcudart.so.12";
    fs::copy_file(standin("12/libcudart.so.12"), library);
    const Exporter exporter;
    const e2e::MapsAsCode user(library);
    exporter.wait_until_attached_to(library);
    CHECK(post(exporter, "/-/release?time=1s&pid=" + std::to_string(user.pid())).status == 200);
    eventually("the file to be attached to again",
               [&] { return exporter.times_attached_to(library) == 2; });
    {
        const e2e::MapsAsCode saved(library);
        CHECK(post(exporter, "/-/release?pid=" + std::to_string(saved.pid())).status == 200);
    }
    eventually("the file to be attached to again",
               [&] { return exporter.times_attached_to(library) == 3; });
}

TEST_CASE("a request to release nothing that is there is answered by a sentence", "[e2e]") {
    require_bpf();
    const Exporter exporter;
    const auto answer = [&](const std::string &query) {
        const HttpAnswer got = post(exporter, "/-/release" + query);
        return std::to_string(got.status) + " " + got.body;
    };
    CHECK(answer("") == "400 Not released: say which process: pid=N, or container=ID.\n");
    CHECK(answer("?pid=1&container=0123456789ab") ==
          "400 Not released: say which process: pid=N, or container=ID.\n");
    CHECK(answer("?pid=-1") ==
          "400 Not released: pid must be the id of a process, as the host counts.\n");
    CHECK(answer("?pid=1&time=2d") == "400 Not released: time must be from 1s to 24h.\n");
    CHECK(answer("?pid=1&for=1s") ==
          "400 Not released: there is no parameter of this name: pid, container and time are "
          "known.\n");
    CHECK(answer("?pid=4194305") == "404 Not released: there is no process 4194305.\n");
    CHECK(answer("?container=0123") ==
          "400 Not released: container must be 12 characters of its id or more.\n");
    CHECK(answer("?container=0123456789abcdef") ==
          "404 Not released: no process runs in a container with this id.\n");
    CHECK(http(exporter.port(), "/-/release?pid=1").status == 405);
    const HttpAnswer unknown = post(exporter, "/-/give-back?pid=1");
    CHECK(unknown.status == 404);
    CHECK(unknown.body == "Not given back: no such process was released.\n");
}
