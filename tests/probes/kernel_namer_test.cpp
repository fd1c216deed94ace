// Names of kernels, of processes that keep readers of their memory waiting.
#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "exporter/base/fd.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "tests/harness/exporter.h"
#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace harness;

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
