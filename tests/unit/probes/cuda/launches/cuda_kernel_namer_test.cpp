#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "exporter/probes/cuda/launches/cuda_kernel_name.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "tests/unit/child_process.h"
#include "tests/unit/symbols/own_process.h"
#include "tests/unit/symbols/stacks/proc_mapped_files.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace gpusnoop::test;
using namespace std::chrono_literals;

// As nvcc has it in a program: the device name of a kernel, and its host function.
extern const char registered_in_program[];
[[gnu::used]] const char registered_in_program[] = "_ZN2ns5innerL2tnILi3ENS_1SEEEvT0_";
extern void host_function_of_kernel(float *);
[[gnu::used, gnu::noinline]] void host_function_of_kernel(float *) {
    asm volatile("");
}

namespace {

// Pages that a child inherits, followed by one that is not mapped.
class Pages {
public:
    explicit Pages(std::size_t count) : size_(count * page()) {
        start_ = static_cast<char *>(::mmap(nullptr, size_ + page(), PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(start_ != MAP_FAILED);
        REQUIRE(::munmap(start_ + size_, page()) == 0);
    }
    ~Pages() { ::munmap(start_, size_); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
    [[nodiscard]] char *start() const { return start_; }
    [[nodiscard]] char *end() const { return start_ + size_; }

private:
    std::size_t size_;
    char *start_ = nullptr;
};

void tell_nothing(const ChildProcess::Tell &tell) {
    tell({});
}

struct KernelNamerFixture {
    MappedFilesCounts counts;
    FileCache::Clock::time_point now{1h};
    CudaKernelNamer namer{std::make_unique<ProcMappedFiles>(counts),
                          {.now = [this] { return now; }}};

    static Executable executable_of(std::uint32_t tgid) {
        const struct stat program = own_program();
        const auto start = code_start_of(tgid);
        REQUIRE(start);
        return {tgid,
                {program.st_ino, 0, 0, 0},
                static_cast<std::uint64_t>(program.st_size),
                *start,
                *start + static_cast<std::uint64_t>(program.st_size)};
    }

    // Of a kernel whose host function says nothing.
    std::string name_of(const Executable &executable, std::optional<std::uint64_t> pointer) {
        return namer.name({1, executable, 0x10, pointer});
    }
};

}  // namespace

TEST_CASE("a kernel is named by its host function", "[kernel_namer]") {
    ChildProcess child(tell_nothing);
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    const auto function = reinterpret_cast<std::uint64_t>(&host_function_of_kernel);
    // A symbol is better than what the process says.
    const std::uint64_t pointer = address_of(registered_in_program);
    CHECK(fixture.namer.name({1, executable, function, pointer}) == "host_function_of_kernel");
    // By the mappings, where it is not in the main program's code.
    Executable elsewhere = executable;
    elsewhere.code_end = elsewhere.code_start;
    CHECK(fixture.namer.name({1, elsewhere, function, {}}) == "host_function_of_kernel");
    child.end();
    CHECK(fixture.namer.name({1, executable, function, {}}) == "host_function_of_kernel");
    CHECK(fixture.namer.name({1, executable, 0x10, {}}).empty());
}

TEST_CASE("a kernel without symbols has its registered name", "[kernel_namer]") {
    const Pages pages(2);
    const std::string_view name = "_Z5scaleIfEvPT_i";
    char *const last = pages.end() - name.size() - 1;
    std::memcpy(last, name.data(), name.size());
    char *const across = pages.start() + Pages::page() - 5;
    std::memcpy(across, name.data(), name.size());
    const ChildProcess child(tell_nothing);
    std::memset(pages.start(), 'x', 2 * Pages::page());  // this process's own is another
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    CHECK(fixture.name_of(executable, address_of(last)) == "scale<float>");
    CHECK(fixture.name_of(executable, address_of(across)) == "scale<float>");
    CHECK(fixture.name_of(executable, address_of(registered_in_program)) ==
          "ns::inner::tn<3, ns::S>");
    CHECK(fixture.name_of(executable, {}).empty());
}

TEST_CASE("what is no string gives no name", "[kernel_namer]") {
    const Pages pages(2);
    std::memset(pages.start(), 'k', 2 * Pages::page());
    pages.start()[CudaKernelNamer::max_registered_bytes - 1] = '\0';
    const ChildProcess child(tell_nothing);
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    // The last byte that is looked at ends it, or the name is cut there.
    CHECK(fixture.name_of(executable, address_of(pages.start())) == "..." + std::string(117, 'k'));
    pages.start()[CudaKernelNamer::max_registered_bytes - 1] = 'k';
    pages.start()[CudaKernelNamer::max_registered_bytes] = '\0';
    const ChildProcess longer(tell_nothing);
    const Executable of_longer = fixture.executable_of(longer.tgid());
    CHECK(fixture.name_of(of_longer, address_of(pages.start())) == "..." + std::string(117, 'k'));
    CHECK(fixture.name_of(of_longer, address_of(pages.start() + 1)) ==
          "..." + std::string(117, 'k'));
    // The same in the middle of a page.
    pages.start()[100 + CudaKernelNamer::max_registered_bytes] = '\0';
    pages.start()[CudaKernelNamer::max_registered_bytes] = 'k';
    const ChildProcess unaligned(tell_nothing);
    const Executable of_unaligned = fixture.executable_of(unaligned.tgid());
    CHECK(fixture.name_of(of_unaligned, address_of(pages.start() + 100)) ==
          "..." + std::string(117, 'k'));
    CHECK(!fixture.name_of(of_unaligned, address_of(pages.start() + 101)).empty());
    // Not ended before memory does.
    CHECK(fixture.name_of(executable, address_of(pages.end() - 10)).empty());
    for (const std::uint64_t nowhere :
         {std::uint64_t{0}, std::uint64_t{0x10}, address_of(pages.end()), ~std::uint64_t{0}}) {
        CHECK(fixture.name_of(executable, nowhere).empty());
    }
}

TEST_CASE("a registered name may be anything", "[kernel_namer]") {
    const Pages pages(1);
    std::strcpy(pages.start(), "\xff\n_Z");
    const ChildProcess child(tell_nothing);
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    CHECK(fixture.name_of(executable, address_of(pages.start())) == "\xef\xbf\xbd\xef\xbf\xbd_Z");
    CHECK(fixture.name_of(executable, address_of(pages.start() + 10)).empty());
}

TEST_CASE("a process that is gone has its registered names in its program", "[kernel_namer]") {
    const Pages pages(1);
    std::strcpy(pages.start(), "_Z3addPfPKfi");
    ChildProcess child(tell_nothing);
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    fixture.namer.remember(executable);
    child.end();
    const std::uint64_t in_program = address_of(registered_in_program);
    CHECK(fixture.name_of(executable, in_program) == "ns::inner::tn<3, ns::S>");
    Executable another = executable;
    ++another.bytes;
    CHECK(fixture.name_of(another, in_program).empty());
    CHECK(fixture.name_of(executable, address_of(pages.start())).empty());
    CHECK(fixture.name_of(executable, executable.code_start + (std::uint64_t{1} << 40)).empty());
    CHECK(fixture.name_of(executable, ~std::uint64_t{0}).empty());

    SECTION("until the program is closed") {
        CHECK(fixture.namer.close_unused() == fixture.now + 60s);
        fixture.now += 60s;
        CHECK_FALSE(fixture.namer.close_unused());
        CHECK(fixture.name_of(executable, in_program).empty());
    }
}

TEST_CASE("a name is not read from another program", "[kernel_namer]") {
    const Pages pages(1);
    std::strcpy(pages.start(), "_Z3addPfPKfi");
    const ChildProcess child(tell_nothing);
    KernelNamerFixture fixture;
    const Executable executable = fixture.executable_of(child.tgid());
    CHECK(fixture.name_of(executable, address_of(pages.start())) == "add");
    Executable other = executable;
    SECTION("at another place") {
        other.code_start += 0x1000;
    }
    SECTION("of another size") {
        ++other.bytes;
    }
    SECTION("of another inode") {
        ++other.id.inode;
    }
    CHECK(fixture.name_of(other, address_of(pages.start())).empty());
}
