#include "tests/e2e/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

namespace e2e {

namespace {

int map_and_stay(const std::filesystem::path &file, const std::filesystem::path &mapped) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
        return 1;
    }
    harness::write_file(mapped, "");
    pause_for_ever();
}

}  // namespace

Child::Child(const std::function<int()> &body) : pid_(::fork()) {
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::_exit(body());
    }
}

Child::~Child() {
    if (pid_ > 0 && status_ < 0) {
        ::kill(pid_, SIGKILL);
        int status = 0;
        ::waitpid(pid_, &status, 0);
    }
}

void Child::signal(int number) const {
    ::kill(pid_, number);
}

int Child::wait() {
    if (status_ < 0) {
        int status = 0;
        harness::eventually("the end of a child",
                            [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return status_;
}

void pause_for_ever() {
    while (true) {
        ::pause();
    }
}

void wait_for_file(const std::filesystem::path &path) {
    while (::access(path.c_str(), F_OK) != 0) {
        ::usleep(1000);
    }
}

void *function_of(void *library, const char *name) {
    void *function = library == nullptr ? nullptr : ::dlsym(library, name);
    if (function == nullptr) {
        ::_exit(126);
    }
    return function;
}

MapsAsCode::MapsAsCode(const std::filesystem::path &file, const std::string &comm)
    : child_([&] {
          if (!comm.empty()) {
              ::prctl(PR_SET_NAME, comm.c_str());
          }
          return map_and_stay(file, directory_ / "mapped");
      }) {
    harness::eventually("a child to map " + file.string(),
                        [&] { return std::filesystem::exists(directory_ / "mapped"); });
}

}  // namespace e2e
