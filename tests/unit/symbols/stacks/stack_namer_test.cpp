#include "exporter/symbols/stacks/stack_namer.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "exporter/base/text/text.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "tests/unit/child_process.h"
#include "tests/unit/symbols/elf/elf_image.h"
#include "tests/unit/symbols/own_process.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
using namespace std::chrono_literals;

namespace stack_test {

void tell_stack(const ChildProcess::Tell &tell) {
    std::array<void *, 100> addresses;
    const int count = ::backtrace(addresses.data(), static_cast<int>(addresses.size()));
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < count; ++i) {
        numbers.push_back(reinterpret_cast<std::uint64_t>(addresses[static_cast<std::size_t>(i)]));
    }
    tell(numbers);
}

[[gnu::noinline]] void leak_big(const ChildProcess::Tell &tell) {
    tell_stack(tell);
    asm volatile("");  // no jump in the place of the call
}

struct Trainer {
    [[gnu::noinline]] void step(const ChildProcess::Tell &tell) {
        leak_big(tell);
        asm volatile("");
    }
};

[[gnu::noinline]] [[noreturn]] void never_returns(const ChildProcess::Tell &tell) {
    tell_stack(tell);
    ChildProcess::wait_for_death();
}

// Its last instruction is the call.
[[gnu::noinline]] void calls_last(const ChildProcess::Tell &tell) {
    never_returns(tell);
}

}  // namespace stack_test

namespace {

// An ELF image in this process, its code executable.
class MappedImage {
public:
    explicit MappedImage(const ImageOptions &options, bool deleted = false) {
        const ElfImage image(options);
        REQUIRE(fd_);
        REQUIRE(::write(fd_.get(), image.bytes().data(), image.bytes().size()) ==
                static_cast<ssize_t>(image.bytes().size()));
        address_ = ::mmap(nullptr, ElfImage::kCodeSize, PROT_READ | PROT_EXEC, MAP_PRIVATE,
                          fd_.get(), ElfImage::kCodeOffset);
        REQUIRE(address_ != MAP_FAILED);
        if (deleted) {
            std::filesystem::remove(path_.data());
        }
    }
    ~MappedImage() {
        ::munmap(address_, ElfImage::kCodeSize);
        std::filesystem::remove(path_.data());
    }
    MappedImage(const MappedImage &) = delete;
    MappedImage &operator=(const MappedImage &) = delete;

    [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
        return reinterpret_cast<std::uint64_t>(address_) + offset;
    }
    [[nodiscard]] std::string name() const {
        return std::filesystem::path(path_.data()).filename();
    }

private:
    std::array<char, 32> path_{"/tmp/stack-test-XXXXXX"};
    Fd fd_{::mkostemp(path_.data(), O_CLOEXEC)};
    void *address_ = MAP_FAILED;
};

struct NamerFixture {
    MappedFilesCounts counts;
    FileCache::Clock::time_point now{1h};
    StackNamer namer{std::make_unique<ProcMappedFiles>(counts), {.now = [this] { return now; }}};

    std::vector<Frame> frames_of(std::uint32_t tgid, std::vector<std::uint64_t> addresses,
                                 std::uint64_t code_start = 0) {
        const std::array<StackRequest, 1> requests{{{9, tgid, std::move(addresses), code_start}}};
        auto answers = namer.name(requests);
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].ticket == 9);
        return answers[0].frames;
    }
};

bool is_unresolved(const Frame &frame) {
    return frame.function.empty() && frame.module.empty() && frame.offset == 0;
}

// Those from this function on: what takes the stack is on it too, and so is a sanitizer.
std::vector<Frame> from(const std::vector<Frame> &frames, std::string_view function) {
    const auto found = std::ranges::find(frames, function, &Frame::function);
    return {found, frames.end()};
}

ImageOptions two_functions() {
    ImageOptions options;
    options.symtab = {
        {.name = "_ZN1T5firstEv", .value = ElfImage::kCodeVaddr + 0x100, .size = 0x40},
        {.name = "\xff\n;", .value = ElfImage::kCodeVaddr + 0x140, .size = 0x40}};
    return options;
}

}  // namespace

TEST_CASE("the stack of another process is named", "[stack_namer]") {
    const ChildProcess child([](const auto &tell) { stack_test::Trainer().step(tell); });
    NamerFixture fixture;
    const auto all = fixture.frames_of(child.tgid(), child.told());
    REQUIRE(all.size() == child.told().size());
    const auto frames = from(all, "stack_test::leak_big");
    REQUIRE(frames.size() > 3);
    CHECK(frames[1].function == "stack_test::Trainer::step");
    CHECK(frames[0].module == std::filesystem::read_symlink("/proc/self/exe").filename());
    CHECK(frames[0].offset > 0);
    CHECK(frames[0].offset < 0x1000);
    CHECK(site_label(frames).starts_with("stack_test::leak_big < stack_test::Trainer::step < "));
    std::size_t mains = 0;
    for (const Frame &frame : frames) {
        mains += frame.function == "main" ? 1 : 0;
    }
    CHECK(mains == 1);
}

TEST_CASE("a call that is its function's last instruction is that function's", "[stack_namer]") {
    const ChildProcess child([](const auto &tell) { stack_test::calls_last(tell); });
    NamerFixture fixture;
    const auto frames =
        from(fixture.frames_of(child.tgid(), child.told()), "stack_test::never_returns");
    REQUIRE(frames.size() > 2);
    CHECK(frames[1].function == "stack_test::calls_last");
}

TEST_CASE("places in a file are those of return addresses", "[stack_namer]") {
    const MappedImage image(two_functions());
    NamerFixture fixture;
    const auto frames = fixture.frames_of(
        own_tgid(), {image.at(0x101), image.at(0x140), image.at(0x141), image.at(0x100),
                     image.at(0x180), image.at(0x181), image.at(0x1000)});
    REQUIRE(frames.size() == 7);
    CHECK(frames[0].function == "T::first");
    CHECK(frames[0].offset == 1);
    CHECK(frames[0].module == image.name());
    CHECK(frames[1].function == "T::first");
    CHECK(frames[1].offset == 0x40);
    CHECK(frames[2].function == "\xef\xbf\xbd\xef\xbf\xbd;");
    CHECK(frames[2].offset == 1);
    CHECK(frames[3].function.empty());
    CHECK(frames[3].module == image.name());
    CHECK(frames[3].offset == ElfImage::kCodeOffset + 0x100);
    CHECK(frames[4].offset == 0x40);
    CHECK(frames[5].function.empty());
    CHECK(frames[5].offset == ElfImage::kCodeOffset + 0x181);
    CHECK(frames[6].module == image.name());  // just past its end
    for (const Frame &frame : frames) {
        CHECK(find_invalid_utf8(frame.function) == std::string::npos);
    }
    const std::vector<Frame> third{frames[2]};
    CHECK(folded_line("x", third, 1) == "x;\xef\xbf\xbd\xef\xbf\xbd: 1");
}

TEST_CASE("a stripped program gives places in its file", "[stack_namer]") {
    const MappedImage image({});
    NamerFixture fixture;
    const auto frames = fixture.frames_of(own_tgid(), {image.at(0x234)});
    CHECK(site_label(frames) == image.name() + "+0x4234");
}

TEST_CASE("a file that cannot be opened still has a name", "[stack_namer]") {
    const MappedImage image(two_functions(), true);
    NamerFixture fixture;
    const auto frames = fixture.frames_of(own_tgid(), {image.at(0x101)});
    CHECK(fixture.counts.refused == 1);
    CHECK(frames[0].function.empty());
    CHECK(frames[0].module.starts_with(image.name()));
    CHECK(frames[0].offset == ElfImage::kCodeOffset + 0x101);
}

TEST_CASE("addresses of no file are not resolved", "[stack_namer]") {
    const auto heap = std::make_unique<int>(7);
    const MappedImage image(two_functions());
    NamerFixture fixture;
    const std::vector<std::uint64_t> addresses{0,
                                               1,
                                               ~std::uint64_t{0},
                                               0xffffffff81000000,
                                               0x800000000000,
                                               reinterpret_cast<std::uint64_t>(heap.get()),
                                               reinterpret_cast<std::uint64_t>(&image),
                                               std::uint64_t{1} << 63};
    const auto frames = fixture.frames_of(own_tgid(), addresses);
    REQUIRE(frames.size() == addresses.size());
    for (const Frame &frame : frames) {
        CHECK(is_unresolved(frame));
    }
    CHECK(fixture.frames_of(own_tgid(), {}).empty());
    CHECK(fixture.counts.opened == 0);
    // Nor does more than a stack can have cost anything.
    CHECK(fixture.frames_of(own_tgid(), std::vector<std::uint64_t>(100'000, image.at(0x101)))
              .size() == StackNamer::max_frames);
}

TEST_CASE("a process that is gone has frames that are not resolved", "[stack_namer]") {
    ChildProcess child([](const auto &tell) { stack_test::leak_big(tell); });
    child.end();
    NamerFixture fixture;
    const auto frames = fixture.frames_of(child.tgid(), child.told());
    REQUIRE(frames.size() == child.told().size());
    for (const Frame &frame : frames) {
        CHECK(is_unresolved(frame));
    }
}

TEST_CASE("a stack is not looked up in another program", "[stack_namer]") {
    const MappedImage image(two_functions());
    NamerFixture fixture;
    const auto code_start = code_start_of(own_tgid());
    REQUIRE(code_start);
    const std::uint64_t address = image.at(0x101);
    CHECK(fixture.frames_of(own_tgid(), {address}, *code_start)[0].function == "T::first");
    CHECK(is_unresolved(fixture.frames_of(own_tgid(), {address}, *code_start + 0x1000)[0]));
    CHECK(fixture.frames_of(own_tgid(), {address}, 0)[0].function == "T::first");
}

TEST_CASE("a sample on the first byte of a function is in it, a return address before it is not",
          "[stack_namer]") {
    const MappedImage image(two_functions());
    NamerFixture fixture;
    StackRequest request{.ticket = 1,
                         .tgid = own_tgid(),
                         .addresses = {image.at(0x100), image.at(0x140)},
                         .is_thorough = true};
    const auto reply = [&] { return fixture.namer.name({&request, 1}).front(); };
    CHECK(reply().frames[0].function.empty());
    CHECK(reply().frames[1].function == "T::first");
    CHECK(reply().frames[1].offset == 0x40);
    request.begins_at_instruction = true;
    CHECK(reply().frames[0].function == "T::first");
    CHECK(reply().frames[0].offset == 0);
    CHECK(reply().frames[1].function == "T::first");
    CHECK(reply().frames[1].offset == 0x40);
    CHECK(reply().places[0].offset == ElfImage::kCodeOffset + 0x100);
    CHECK(reply().places[1].offset == ElfImage::kCodeOffset + 0x13f);
}

TEST_CASE("a batch reads each process and each file once", "[stack_namer]") {
    const MappedImage image(two_functions());
    const ChildProcess child([](const auto &tell) { stack_test::leak_big(tell); });
    NamerFixture fixture;
    const std::vector<StackRequest> requests{{1, own_tgid(), {image.at(0x101), image.at(0x150)}},
                                             {2, child.tgid(), {image.at(0x101)}},
                                             {3, own_tgid(), {5, image.at(0x150)}}};
    const auto answers = fixture.namer.name(requests);
    REQUIRE(answers.size() == 3);
    CHECK(answers[0].ticket == 1);
    CHECK(answers[0].frames.size() == 2);
    CHECK(answers[1].frames[0].function == "T::first");
    CHECK(is_unresolved(answers[2].frames[0]));
    CHECK(answers[2].frames[1].offset == 0x10);
    CHECK(fixture.counts.lists == 2);
    CHECK(fixture.counts.opened == 1);
    CHECK(fixture.namer.name(requests).size() == 3);
    CHECK(fixture.counts.lists == 4);
    CHECK(fixture.counts.opened == 1);

    // Closed after a minute, opened again when needed.
    CHECK(fixture.namer.close_unused() == fixture.now + 60s);
    fixture.now += 60s;
    CHECK_FALSE(fixture.namer.close_unused());
    CHECK(fixture.namer.name(requests)[1].frames[0].function == "T::first");
    CHECK(fixture.counts.opened == 2);
}
