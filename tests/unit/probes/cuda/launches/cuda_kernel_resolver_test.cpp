#include "exporter/probes/cuda/launches/cuda_kernel_namer.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "tests/unit/child_process.h"

using namespace gpusnoop;
using namespace gpusnoop::symbols;
using namespace std::chrono_literals;

namespace {

// Each process takes its time to answer.
class SlowFiles : public MappedFiles {
public:
    explicit SlowFiles(std::atomic<int> &asked) : asked_(asked) {}
    Result<std::vector<ebpf::Mapping>> list(std::uint32_t /*tgid*/) override {
        ++asked_;
        std::this_thread::sleep_for(10ms);
        return fail("it does not answer", ETIMEDOUT);
    }
    Result<processes::MappedFile> open_file(const ebpf::Mapping & /*mapping*/) override {
        return fail("it does not answer", ETIMEDOUT);
    }
    Result<processes::MappedFile> open_program(std::uint32_t /*tgid*/, const FileId & /*id*/,
                                               std::uint64_t /*bytes*/) override {
        return fail("it does not answer", ETIMEDOUT);
    }

private:
    std::atomic<int> &asked_;
};

CudaKernelRequest request_for(std::uint64_t ticket, std::uint32_t tgid) {
    CudaKernelRequest one;
    one.ticket = ticket;
    one.executable.tgid = tgid;
    one.address = 0x1000 + ticket;
    return one;
}

constexpr int many_kernels = 1000;  // in one batch

}  // namespace

TEST_CASE("a resolver that ends leaves the questions that wait", "[kernel_resolver]") {
    std::atomic<int> asked = 0;
    {
        CudaKernelResolver resolver(std::make_unique<SlowFiles>(asked));
        for (std::uint64_t ticket = 0; ticket < many_kernels; ticket++) {
            resolver.ask(request_for(ticket, static_cast<std::uint32_t>(::getpid())));
        }
        while (asked < 20) {  // the others wait
            std::this_thread::sleep_for(1ms);
        }
    }
    CHECK(asked < many_kernels / 2);
}

TEST_CASE("slow kernels of one process do not delay those of another", "[kernel_resolver]") {
    const test::ChildProcess other([](const auto &tell) { tell({}); });
    std::atomic<int> asked = 0;
    CudaKernelResolver resolver(std::make_unique<SlowFiles>(asked));
    for (std::uint64_t ticket = 0; ticket < many_kernels; ticket++) {
        resolver.ask(request_for(ticket, static_cast<std::uint32_t>(::getpid())));
    }
    resolver.ask(request_for(many_kernels, other.tgid()));
    std::size_t before = 0;
    bool is_answered = false;
    for (int i = 0; !is_answered && i < 60'000; i++) {
        for (const CudaKernelReply &reply : resolver.answers()) {
            is_answered = is_answered || reply.ticket == many_kernels;
            before += is_answered ? 0 : 1;
        }
        std::this_thread::sleep_for(1ms);
    }
    CHECK(is_answered);
    CHECK(before < many_kernels / 2);
}
