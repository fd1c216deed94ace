#include "tests/harness/machine/hanging_file_system.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "exporter/base/fd.h"
#include "tests/harness/exporter.h"

namespace harness {

namespace {

constexpr std::uint64_t kFileNode = 2;

volatile sig_atomic_t is_hanging = 0;
volatile sig_atomic_t is_slow = 0;

// Answers the kernel's requests, one after the other.
class Server {
public:
    Server(int device, std::string name, std::string content, uid_t owner)
        : device_(device), name_(std::move(name)), content_(std::move(content)), owner_(owner) {}

    void run() {
        std::array<char, 256 * 1024> request;
        for (;;) {
            const ssize_t got = ::read(device_, request.data(), request.size());
            if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) {
                continue;
            }
            if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) {
                ::_exit(0);  // unmounted
            }
            if (is_hanging == 0) {
                std::memcpy(&header_, request.data(), sizeof(header_));
                answer(request.data() + sizeof(header_));
            }
        }
    }

private:
    void answer(const char *body) {
        switch (header_.opcode) {
            case FUSE_INIT: {
                fuse_init_out out{};
                out.major = FUSE_KERNEL_VERSION;
                out.minor = 31;
                out.max_readahead = 4096;
                out.max_write = 4096;
                return send(out);
            }
            case FUSE_LOOKUP: {
                if (std::string_view(body) != name_) {
                    return fail(ENOENT);
                }
                fuse_entry_out out{};
                out.nodeid = kFileNode;
                out.generation = 1;
                out.attr = attributes(kFileNode);
                return send(out);
            }
            case FUSE_GETATTR: {
                fuse_attr_out out{};
                out.attr = attributes(header_.nodeid);
                return send(out);
            }
            case FUSE_OPEN:
            case FUSE_OPENDIR:
                return send(fuse_open_out{});
            case FUSE_READ: {
                fuse_read_in in{};
                std::memcpy(&in, body, sizeof(in));
                ::usleep(is_slow != 0 ? 300'000 : 0);
                const std::size_t from = std::min<std::size_t>(in.offset, content_.size());
                const std::size_t size = std::min<std::size_t>(in.size, content_.size() - from);
                return reply(0, content_.data() + from, size);
            }
            case FUSE_RELEASE:
            case FUSE_RELEASEDIR:
            case FUSE_FLUSH:
                return reply(0, nullptr, 0);
            case FUSE_FORGET:
            case FUSE_BATCH_FORGET:
            case FUSE_INTERRUPT:
                return;
            default:
                return fail(ENOSYS);
        }
    }

    // Nothing is valid for long, so that everything is asked again.
    [[nodiscard]] fuse_attr attributes(std::uint64_t node) const {
        fuse_attr attr{};
        attr.ino = node;
        attr.mode = node == kFileNode ? S_IFREG | 0755 : S_IFDIR | 0755;
        attr.nlink = 1;
        attr.uid = node == kFileNode ? owner_ : 0;
        attr.size = node == kFileNode ? content_.size() : 0;
        attr.blksize = 4096;
        return attr;
    }

    template <typename Out>
    void send(const Out &out) {
        reply(0, &out, sizeof(out));
    }
    void fail(int error) { reply(-error, nullptr, 0); }
    void reply(int error, const void *data, std::size_t size) {
        fuse_out_header out{};
        out.unique = header_.unique;
        out.error = error;
        out.len = static_cast<std::uint32_t>(sizeof(out) + size);
        std::array<iovec, 2> parts = {{{&out, sizeof(out)}, {const_cast<void *>(data), size}}};
        (void)::writev(device_, parts.data(), size > 0 ? 2 : 1);
    }

    int device_;
    std::string name_;
    std::string content_;
    uid_t owner_;
    fuse_in_header header_{};
};

}  // namespace

HangingFileSystem::HangingFileSystem(const std::string &name, const std::filesystem::path &content,
                                     uid_t owner)
    : name_(name) {
    const gpusnoop::Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device) {
        missing("/dev/fuse");
    }
    const std::string options =
        "fd=" + std::to_string(device.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    const std::string bytes = read_file(content);
    REQUIRE(::mount("standin", directory_.path().c_str(), "fuse", MS_NOSUID | MS_NODEV,
                    options.c_str()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::signal(SIGUSR1, [](int) { is_hanging = 1; });
        ::signal(SIGUSR2, [](int) { is_slow = 1; });
        Server(device.get(), name, bytes, owner).run();
    }
    REQUIRE(pid_ > 0);
    // A signal would end it before it is ready for it.
    REQUIRE(std::filesystem::exists(file()));
}

HangingFileSystem::~HangingFileSystem() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::umount2(directory_.path().c_str(), MNT_DETACH);
}

void HangingFileSystem::hang() const {
    ::kill(pid_, SIGUSR1);
    ::usleep(100'000);
}

void HangingFileSystem::slow_down() const {
    ::kill(pid_, SIGUSR2);
    ::usleep(100'000);
}

}  // namespace harness
