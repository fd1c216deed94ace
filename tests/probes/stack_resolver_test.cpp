// Stacks of real processes, through the kernel's own list of mappings.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <memory>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "exporter/symbols/stacks/stack_namer.h"
#include "tests/harness/exporter.h"
#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace harness;
using symbols::Frame;

namespace fs = std::filesystem;

namespace {

std::vector<Frame> resolve(symbols::StackResolver &resolver, symbols::StackRequest request) {
    resolver.ask(std::move(request));
    std::vector<symbols::StackReply> answers;
    eventually("the stack is resolved", [&] {
        answers = resolver.answers();
        return !answers.empty();
    });
    REQUIRE(answers.size() == 1);
    return answers[0].frames;
}

std::unique_ptr<symbols::StackResolver> stack_resolver_start() {
    auto resolver = symbols::StackResolver::start();
    INFO((resolver ? "" : resolver.error().message));
    REQUIRE(resolver.has_value());
    return std::move(*resolver);
}

// Where the program of a process is entered; 0 before it has been loaded.
std::uint64_t entry_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/auxv", std::ios::binary);
    Elf64_auxv_t entry{};
    while (file.read(reinterpret_cast<char *>(&entry), sizeof(entry))) {
        if (entry.a_type == AT_ENTRY) {
            return entry.a_un.a_val;
        }
    }
    return 0;
}

std::uint32_t number(pid_t pid) {
    return static_cast<std::uint32_t>(pid);
}

void run_until_named(const Process &process, const std::string &comm) {
    eventually(comm + " runs", [&] {
        return read_file("/proc/" + std::to_string(process.pid()) + "/comm") == comm + "\n";
    });
}

}  // namespace

TEST_CASE("a stack in a library whose path was replaced is named", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const fs::path library = directory / "libcudart.so.12";
    fs::copy_file(standin("12/libcudart.so.12"), library);
    test::ChildProcess child([&](const auto &tell) {
        void *handle = ::dlopen(library.c_str(), RTLD_NOW);
        void *function = handle != nullptr ? ::dlsym(handle, "cudaMalloc") : nullptr;
        tell({reinterpret_cast<std::uint64_t>(function)});
    });
    REQUIRE(child.told().size() == 1);
    REQUIRE(child.told()[0] != 0);
    fs::remove(library);
    write_file(library, "another file");
    const auto resolver = stack_resolver_start();
    const std::uint64_t in_malloc = child.told()[0] + 1;
    const auto code_start = symbols::code_start_of(child.tgid());
    REQUIRE(code_start);
    const auto frames = resolve(*resolver, {1, child.tgid(), {in_malloc, 0x10}, *code_start});
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].function == "cudaMalloc");
    CHECK(frames[0].module == "libcudart.so.12");
    CHECK(frames[0].offset == 1);
    CHECK(frames[1].module.empty());
    CHECK(
        resolve(*resolver, {2, child.tgid(), {in_malloc}, *code_start + 0x1000})[0].module.empty());

    child.end();
    const auto gone = resolve(*resolver, {3, child.tgid(), {in_malloc}});
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].function.empty());
    CHECK(gone[0].module.empty());
}

TEST_CASE("a stack in a program is named, in a stripped one by its file", "[kernel]") {
    require_bpf();
    const TemporaryDirectory directory;
    const fs::path stripped = directory / "stripped";
    const std::string workload = standin("workload");
    REQUIRE(run({"strip", "-o", stripped.string(), workload}).code == 0);
    const std::vector<std::string> hold{"--iterations", "1", "--hold"};
    const auto command = [&](const std::string &program) {
        std::vector<std::string> words{program};
        words.insert(words.end(), hold.begin(), hold.end());
        return words;
    };
    const Process::Environment environment{{"STANDIN_TRUTH_DIR", directory.path().string()}};
    const Process whole(command(workload), environment);
    const Process without_symbols(command(stripped.string()), environment);
    run_until_named(whole, "workload");
    run_until_named(without_symbols, "stripped");
    const auto resolver = stack_resolver_start();

    const auto named = resolve(*resolver, {1, number(whole.pid()), {entry_of(whole.pid()) + 4}});
    CHECK(named[0].function == "_start");
    CHECK(named[0].module == "workload");
    CHECK(named[0].offset == 4);
    const auto by_file = resolve(
        *resolver, {2, number(without_symbols.pid()), {entry_of(without_symbols.pid()) + 4}});
    CHECK(by_file[0].function.empty());
    CHECK(by_file[0].module == "stripped");
    CHECK(symbols::site_label(by_file).starts_with("stripped+0x"));
    CHECK(by_file[0].offset < fs::file_size(stripped));
}

// Names of kernels, of processes that keep readers of their memory waiting.

namespace {

std::uint64_t address_of(const void *place) {
    return reinterpret_cast<std::uint64_t>(place);
}

// In the child: a page that nobody fills in. 0: the kernel offers none.
std::uint64_t page_without_answer() {
    const auto fault = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
    void *const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register range{};
    range.range = {address_of(page), 4096};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    const bool waits = fault >= 0 && ::ioctl(fault, UFFDIO_API, &api) == 0 &&
                       ::ioctl(fault, UFFDIO_REGISTER, &range) == 0;
    return waits ? address_of(page) : 0;
}

symbols::Executable executable_of(std::uint32_t tgid) {
    const struct stat program = test::own_program();
    const auto start = symbols::code_start_of(tgid);
    REQUIRE(start);
    const auto bytes = static_cast<std::uint64_t>(program.st_size);
    return {tgid, {program.st_ino, 0, 0, 0}, bytes, *start, *start + bytes};
}

}  // namespace

TEST_CASE("a process whose memory does not answer keeps no kernel of others from its name",
          "[kernel]") {
    require_bpf();
    test::ChildProcess hanging([](const auto &tell) { tell({page_without_answer()}); });
    REQUIRE(hanging.told().size() == 1);
    if (hanging.told()[0] == 0) {
        missing("userfaultfd, for faults of the kernel");
    }
    static char name[] = "_Z5scaleIfEvPT_i";
    test::ChildProcess other([](const auto &tell) { tell({address_of(name)}); });
    REQUIRE(other.told().size() == 1);
    auto files = symbols::MappedFiles::open();
    REQUIRE(files.has_value());
    symbols::CudaKernelNamer namer(std::move(*files));
    for (int i = 0; i < 3; i++) {
        CHECK(namer.name({1, executable_of(hanging.tgid()), 0x10, hanging.told()[0]}).empty());
        CHECK(namer.name({2, executable_of(other.tgid()), 0x10, other.told()[0]}) ==
              "scale<float>");
    }
}
