// A virtual machine with one CPU in real mode, which counts what it asks for.
//
//   virtual wait | io N | halt N ...
//
// `io`: the guest writes N times to a port, for which the CPU returns to this process. `halt`: it
// halts N times, and goes on by an interrupt. `wait` says so and waits for SIGUSR1. At the end it
// prints what KVM itself has counted of the CPU, "exits 1001", and "wall NANOSECONDS" since the
// signal.
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned long memory_bytes = 0x2000;
constexpr unsigned long code_at = 0x1000;
constexpr unsigned long handler_at = 0x800;
constexpr unsigned first_vector = 0x20;  // of the interrupt controller, for its line 0

int checked(int result, const char *what) {
    if (result < 0) {
        std::perror(what);
        std::exit(1);
    }
    return result;
}

class Machine {
public:
    Machine()
        : kvm_(checked(::open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm")),
          machine_(checked(::ioctl(kvm_, KVM_CREATE_VM, 0), "KVM_CREATE_VM")),
          memory_(static_cast<std::uint8_t *>(::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        checked(::ioctl(machine_, KVM_CREATE_IRQCHIP, 0), "KVM_CREATE_IRQCHIP");
        kvm_userspace_memory_region region{};
        region.memory_size = memory_bytes;
        region.userspace_addr = reinterpret_cast<std::uintptr_t>(memory_);
        checked(::ioctl(machine_, KVM_SET_USER_MEMORY_REGION, &region),
                "KVM_SET_USER_MEMORY_REGION");
        cpu_ = checked(::ioctl(machine_, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
        const int bytes =
            checked(::ioctl(kvm_, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");
        run_ = static_cast<kvm_run *>(::mmap(nullptr, static_cast<std::size_t>(bytes),
                                             PROT_READ | PROT_WRITE, MAP_SHARED, cpu_, 0));
        memory_[first_vector * 4 + 1] = handler_at >> 8U;  // its offset; the segment is 0
        memory_[handler_at] = 0xcf;                        // iret
        // As the guest would set it up: each interrupt is over as soon as the CPU takes it.
        kvm_irqchip controller{};
        controller.chip_id = KVM_IRQCHIP_PIC_MASTER;
        checked(::ioctl(machine_, KVM_GET_IRQCHIP, &controller), "KVM_GET_IRQCHIP");
        controller.chip.pic.irq_base = first_vector;
        controller.chip.pic.auto_eoi = 1;
        controller.chip.pic.imr = 0;
        checked(::ioctl(machine_, KVM_SET_IRQCHIP, &controller), "KVM_SET_IRQCHIP");
    }

    // The guest's loop of N rounds, each of which ends with a write to a port, and then a write to
    // another one. `in_round` is called for each round.
    template <typename InRound>
    void loop(std::uint16_t rounds, bool halts, InRound in_round) {
        std::vector<std::uint8_t> code = {0xb9,
                                          static_cast<std::uint8_t>(rounds),
                                          static_cast<std::uint8_t>(rounds >> 8U),  // mov cx, N
                                          0xba,
                                          0xf8,
                                          0x03};  // mov dx, 0x3f8
        const std::size_t begin = code.size();
        if (halts) {
            code.push_back(0xf4);  // hlt
        }
        code.push_back(0xee);  // out dx, al
        code.push_back(0xe2);  // loop
        code.push_back(static_cast<std::uint8_t>(begin - code.size() - 1));
        code.insert(code.end(), {0x42, 0xee});  // inc dx; out dx, al
        std::memcpy(memory_ + code_at, code.data(), code.size());
        kvm_sregs segments{};
        checked(::ioctl(cpu_, KVM_GET_SREGS, &segments), "KVM_GET_SREGS");
        segments.cs.base = 0;
        segments.cs.selector = 0;
        checked(::ioctl(cpu_, KVM_SET_SREGS, &segments), "KVM_SET_SREGS");
        kvm_regs registers{};
        registers.rip = code_at;
        registers.rsp = 0x700;
        registers.rflags = 0x202;  // with interrupts
        checked(::ioctl(cpu_, KVM_SET_REGS, &registers), "KVM_SET_REGS");
        while (true) {
            if (::ioctl(cpu_, KVM_RUN, 0) < 0 && errno != EINTR) {
                checked(-1, "KVM_RUN");
            }
            if (run_->exit_reason != KVM_EXIT_IO) {
                std::printf("unexpected exit %u\n", run_->exit_reason);
                std::exit(1);
            }
            returns_++;
            if (run_->io.port != 0x3f8) {
                return;
            }
            in_round();
        }
    }

    void interrupt() const {
        for (const unsigned level : {1U, 0U}) {
            kvm_irq_level line{};
            line.level = level;
            checked(::ioctl(machine_, KVM_IRQ_LINE, &line), "KVM_IRQ_LINE");
        }
    }

    [[nodiscard]] unsigned returns() const { return returns_; }

    void print_statistics() const {
        const int file = checked(::ioctl(cpu_, KVM_GET_STATS_FD, 0), "KVM_GET_STATS_FD");
        kvm_stats_header header{};
        checked(static_cast<int>(::pread(file, &header, sizeof(header), 0)), "statistics");
        const std::size_t each = sizeof(kvm_stats_desc) + header.name_size;
        std::vector<char> descriptions(each * header.num_desc);
        checked(static_cast<int>(
                    ::pread(file, descriptions.data(), descriptions.size(), header.desc_offset)),
                "statistics");
        for (std::uint32_t i = 0; i < header.num_desc; i++) {
            kvm_stats_desc description{};
            std::memcpy(&description, descriptions.data() + i * each, sizeof(description));
            std::uint64_t value = 0;
            checked(static_cast<int>(::pread(file, &value, sizeof(value),
                                             header.data_offset + description.offset)),
                    "statistics");
            std::printf("%s %llu\n", descriptions.data() + i * each + sizeof(description),
                        static_cast<unsigned long long>(value));
        }
        ::close(file);
    }

private:
    int kvm_;
    int machine_;
    std::uint8_t *memory_;
    int cpu_ = -1;
    kvm_run *run_ = nullptr;
    unsigned returns_ = 0;
};

void halt(Machine &machine, std::uint16_t times) {
    std::atomic<unsigned> rounds = 0;
    std::jthread waker([&] {
        for (unsigned i = 0; i < times; i++) {
            // Some of the halts are polled for, others slept.
            ::usleep(i % 2 == 0 ? 50 : 5000);
            // One that comes before the guest halts does not end the halt.
            while (rounds == i) {
                machine.interrupt();
                ::usleep(2000);
            }
        }
    });
    machine.loop(times, true, [&] { rounds++; });
}

}  // namespace

int main(int argc, char **argv) {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    Machine machine;
    int waits = 0;
    auto began = std::chrono::steady_clock::now();
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "wait") {
            if (machine.returns() > 0) {
                const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - began;
                std::printf("returns %u\nwall %lld\n", machine.returns(),
                            static_cast<long long>(wall.count()));
                machine.print_statistics();
            }
            std::printf("waiting %d\n", ++waits);
            std::fflush(stdout);
            int signal = 0;
            ::sigwait(&signals, &signal);
            began = std::chrono::steady_clock::now();
        } else if (i + 1 < argc) {
            const auto times = static_cast<std::uint16_t>(std::atoi(argv[++i]));
            if (word == "io") {
                machine.loop(times, false, [] {});
            } else if (times > 0) {
                halt(machine, times);
            }
        }
    }
}
