#include "tests/harness/guest.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <sstream>

#include "exporter/base/fd.h"
#include "tests/harness/process.h"

namespace harness {

namespace {

constexpr const char *commands = "/proc/gpusnoop_test";

}  // namespace

TestModule::TestModule() {
    const char *const module = std::getenv("GPUSNOOP_TEST_MODULE");
    if (module == nullptr) {
        FAIL("this test is for the guests of scripts/vm.sh");
    }
    // By force: it has not the checksums of the kernel's symbols.
    const Finished loaded = run({"/sbin/insmod", "-f", module});
    INFO(loaded.output);
    REQUIRE(loaded.code == 0);
}

TestModule::~TestModule() {
    CHECK(run({"/sbin/rmmod", "gpusnoop_test"}).code == 0);
}

void TestModule::command(const std::string &text) const {
    const gpusnoop::Fd file(::open(commands, O_WRONLY | O_CLOEXEC));
    INFO(text);
    REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

TestModule::Answer TestModule::answer() const {
    std::istringstream words(read_file(commands));
    Answer answer;
    words >> answer.result >> answer.value;
    REQUIRE(words);
    return answer;
}

}  // namespace harness
