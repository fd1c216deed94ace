#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "tests/harness/machine/directory.h"
#include "tests/unit/child_process.h"
#include "tests/unit/symbols/own_process.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
using symbols::PatientReader;

TEST_CASE("words and strings of a process", "[process_memory]") {
    const std::uint64_t word = 0x0123456789abcdef;
    CHECK(read_word(own_tgid(), address_of(&word)) == word);
    CHECK_FALSE(read_word(own_tgid(), 8));
    const std::string text("one\0two", 7);
    CHECK(read_string(own_tgid(), address_of(text.data()), 100) == "one");
    CHECK(read_string(own_tgid(), address_of(text.data()), 4) == "one");
    CHECK(read_string(own_tgid(), address_of(text.data()), 2) == "on");
    CHECK(read_string(own_tgid(), address_of(text.data() + 3), 100) == "");
    CHECK(read_string(own_tgid(), address_of(text.data()), 0) == "");
}

TEST_CASE("a process that is gone has no memory", "[process_memory]") {
    const std::uint64_t word = 5;
    ChildProcess child([](const auto &tell) { tell({}); });
    CHECK(read_word(child.tgid(), address_of(&word)) == 5);
    CHECK(code_start_of(child.tgid()).has_value());
    child.end();
    CHECK_FALSE(read_word(child.tgid(), address_of(&word)));
    CHECK_FALSE(read_string(child.tgid(), address_of(&word), 8));
    CHECK_FALSE(code_start_of(child.tgid()));
}

TEST_CASE("where a program's code begins, whatever the process is called", "[process_memory]") {
    const auto plain = code_start_of(own_tgid());
    REQUIRE(plain);
    const ChildProcess child([](const auto &tell) {
        ::prctl(PR_SET_NAME, ") 7 (x) 1 2");
        tell({});
    });
    CHECK(code_start_of(child.tgid()) == plain);
}

namespace {

// A page that has nothing in it, and that nobody fills: whoever reads it waits.
class PageWithoutAnswer {
public:
    PageWithoutAnswer()
        : fault_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))),
          page_(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        uffdio_api api{};
        api.api = UFFD_API;
        uffdio_register range{};
        range.range = {address_of(page_), 4096};
        range.mode = UFFDIO_REGISTER_MODE_MISSING;
        waits_ = fault_ && ::ioctl(fault_.get(), UFFDIO_API, &api) == 0 &&
                 ::ioctl(fault_.get(), UFFDIO_REGISTER, &range) == 0;
    }
    ~PageWithoutAnswer() { ::munmap(page_, 4096); }
    PageWithoutAnswer(const PageWithoutAnswer &) = delete;
    PageWithoutAnswer &operator=(const PageWithoutAnswer &) = delete;

    [[nodiscard]] bool waits() const { return waits_; }
    [[nodiscard]] std::uint64_t address() const { return address_of(page_); }

private:
    Fd fault_;
    void *page_;
    bool waits_ = false;
};

}  // namespace

TEST_CASE("a patient reader reads memory, and says where there is none") {
    PatientReader reader;
    const std::string text = "a text";
    const auto read = reader.read_memory(own_tgid(), address_of(text.data()), text.size());
    REQUIRE(read.has_value());
    CHECK(*read == text);
    CHECK_FALSE(reader.read_memory(own_tgid(), 8, 8).has_value());
}

TEST_CASE("memory that does not answer costs a second once, and others nothing") {
    const PageWithoutAnswer page;
    if (!page.waits()) {
        SKIP("needs userfaultfd, for faults of the kernel");
    }
    PatientReader reader(std::chrono::milliseconds(100));
    const auto waited = reader.read_memory(own_tgid(), page.address(), 8);
    REQUIRE_FALSE(waited.has_value());
    CHECK(waited.error().code == ETIMEDOUT);
    // The child is gone by then, or its process is left alone until it is; others are read.
    const std::string text = "a text";
    for (int i = 0; i < 1000; i++) {
        const auto read = reader.read_memory(own_tgid(), address_of(text.data()), text.size());
        if (read) {
            CHECK(*read == text);
            return;
        }
        CHECK(read.error().code == ETIMEDOUT);
        ::usleep(10'000);
    }
    FAIL("memory is not read any more");
}

TEST_CASE("a patient reader opens the program that is asked for, and no other") {
    PatientReader reader;
    struct stat self{};
    REQUIRE(::stat("/proc/self/exe", &self) == 0);
    const auto bytes = static_cast<std::uint64_t>(self.st_size);
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/exe";
    for (const bool answers : {true, false}) {
        const auto opened = reader.open_program(own_tgid(), path, self.st_ino, bytes,
                                                [=](auto, const auto &) { return answers; });
        REQUIRE(opened.has_value());
        CHECK(static_cast<bool>(opened->content) != answers);
        char magic = 0;
        CHECK(::pread(opened->readable(), &magic, 1, 1) == 1);
        CHECK(magic == 'E');
    }
    const auto another = reader.open_program(own_tgid(), path, self.st_ino, bytes + 1,
                                             [](auto, const auto &) { return true; });
    REQUIRE_FALSE(another.has_value());
    CHECK(another.error().code == ESRCH);
    const auto refused = reader.open_program(
        own_tgid(), path, self.st_ino, bytes,
        [](auto, const auto &) -> Result<bool> { return fail("another", EACCES); });
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == EACCES);
}

TEST_CASE("a patient reader copies texts of a process's own user only") {
    PatientReader reader;
    const harness::TemporaryDirectory directory;
    const std::string path = directory / "text";
    std::ofstream(path) << "a text";
    const auto copy = reader.copy_text(own_tgid(), path);
    REQUIRE(copy.has_value());
    std::array<char, 16> bytes{};
    CHECK(::pread(copy->get(), bytes.data(), bytes.size(), 0) == 6);
    const auto missing = reader.copy_text(own_tgid(), path + "s");
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == ENOENT);
    if (::getuid() == 0) {
        REQUIRE(::chown(path.c_str(), 65'534, 65'534) == 0);
        const auto foreign = reader.copy_text(own_tgid(), path);
        REQUIRE_FALSE(foreign.has_value());
        CHECK(foreign.error().code == EPERM);
    }
}
