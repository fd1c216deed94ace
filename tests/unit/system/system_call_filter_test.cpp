#include "exporter/system/capabilities.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <functional>
#include <string_view>

using namespace gpusnoop;

namespace {

// Its exit status, of a process of its own: a filter stays.
int in_child(const std::function<int()> &work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(work());
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a process that refuses itself system calls runs no program") {
    const auto runs_true = [] {
        ::execl("/bin/true", "true", nullptr);
        return errno == EPERM ? 1 : 2;
    };
    CHECK(in_child(runs_true) == 0);
    CHECK(in_child([&] { return refuse_system_calls() ? runs_true() : 3; }) == 1);
}

TEST_CASE("a process that refuses itself system calls makes its others") {
    CHECK(in_child([] {
              if (!refuse_system_calls()) {
                  return 1;
              }
              const pid_t child = ::fork();
              if (child == 0) {
                  ::_exit(0);
              }
              int status = 0;
              if (::waitpid(child, &status, 0) != child || status != 0) {
                  return 2;
              }
              // It gets as far as its arguments.
              const bool is_refused =
                  ::syscall(SYS_bpf, -1, nullptr, 0) < 0 && errno == EPERM && ::geteuid() == 0;
              return is_refused ? 3 : 0;
          }) == 0);
}

TEST_CASE("a filter of system calls is inherited, and a second one adds nothing") {
    CHECK(in_child([] {
              const bool both = refuse_system_calls().has_value() && refuse_system_calls();
              const pid_t child = ::fork();
              if (child == 0) {
                  ::_exit(::syscall(SYS_unshare, 0) < 0 && errno == EPERM ? 0 : 1);
              }
              int status = 0;
              ::waitpid(child, &status, 0);
              return both && status == 0 ? 0 : 1;
          }) == 0);
}
