#include "exporter/system/foreign_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "exporter/system/descriptor_message.h"
#include "exporter/system/foreign_reader_child.h"
#include "exporter/system/forking_process.h"

namespace gpusnoop {

namespace {

constexpr std::byte a_byte{};

}  // namespace

struct ForeignReader::Shared : reader::Shared {};

Result<> ForeignReader::prepare() {
    return ForkingProcess::of_this_process().start();
}

Result<std::unique_ptr<ForeignReader>> ForeignReader::start(std::chrono::milliseconds most) {
    const Fd file(static_cast<int>(::syscall(SYS_memfd_create, "reader", MFD_CLOEXEC)));
    if (!file || ::ftruncate(file.get(), sizeof(Shared)) != 0) {
        return fail_errno("make memory for a process that reads files");
    }
    void *const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
        return fail_errno("map memory for a process that reads files");
    }
    std::unique_ptr<ForeignReader> reader(new ForeignReader(static_cast<Shared *>(memory)));
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail_errno("make sockets for a process that reads files");
    }
    reader->socket_ = Fd(ends[0]);
    Fd its(ends[1]);
    auto child = ForkingProcess::of_this_process().fork_child(reader::Child::reader,
                                                              {file.get(), its.get()}, most);
    if (!child) {
        return tl::unexpected(child.error());
    }
    its = Fd();  // if the child ends, its end of the sockets is closed
    reader->pid_ = child->pid;
    reader->process_ = std::move(child->process);
    const auto ready = reader->wait(most);
    if (!ready || ready->error != 0) {
        return fail("start a process that reads files: it does not answer",
                    ready ? EPIPE : ETIMEDOUT);
    }
    return reader;
}

ForeignReader::~ForeignReader() {
    (void)end();
    ::munmap(shared_, sizeof(Shared));
}

bool ForeignReader::end() {
    if (!process_) {
        return true;
    }
    (void)::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    pollfd ended{process_.get(), POLLIN, 0};
    if (::poll(&ended, 1, 0) == 1) {
        process_ = Fd();
    }
    return !process_;
}

Result<> ForeignReader::ask(std::uint32_t what, int fd) {
    shared_->what = what;
    if (!send_message(socket_.get(), {&a_byte, 1}, {&fd, 1}, MSG_DONTWAIT)) {
        return fail_errno("ask the process that reads files");
    }
    return {};
}

Result<> ForeignReader::name(std::string_view root, std::string_view path) {
    if (root.size() >= sizeof(shared_->root) || path.size() >= sizeof(shared_->path)) {
        return fail_errno("open a file", ENAMETOOLONG);
    }
    shared_->root[root.copy(shared_->root, root.size())] = '\0';
    shared_->path[path.copy(shared_->path, path.size())] = '\0';
    return {};
}

Result<> ForeignReader::open(std::string_view root, std::string_view path) {
    if (auto named = name(root, path); !named) {
        return named;
    }
    return ask(reader::open_job);
}

Result<> ForeignReader::find(std::string_view root, std::string_view path) {
    const auto named = name(root, path);
    return named ? ask(reader::find_job) : named;
}

Result<> ForeignReader::open(int fd) {
    return ask(reader::open_again_job, fd);
}

Result<> ForeignReader::take() {
    return ask(reader::take_job);
}

Result<> ForeignReader::close() {
    return ask(reader::close_job);
}

Result<> ForeignReader::copy(Part part) {
    shared_->with_code = part == Part::symbols_and_code;
    shared_->is_text = part == Part::whole_text;
    return ask(reader::copy_job);
}

Result<> ForeignReader::read_memory(std::uint32_t tgid, std::uint64_t address, std::size_t size) {
    shared_->tgid = tgid;
    shared_->address = address;
    shared_->size = std::min(size, sizeof(shared_->buffer));
    return ask(reader::read_memory_job);
}

Result<> ForeignReader::read_link(std::string_view path) {
    const auto named = name("", path);
    return named ? ask(reader::read_link_job) : named;
}

Result<> ForeignReader::read_on(int fd) {
    return ask(reader::read_on_job, fd);
}

Result<> ForeignReader::open_proc(std::string_view path) {
    const auto named = name("", path);
    return named ? ask(reader::open_proc_job) : named;
}

Result<> ForeignReader::read_on() {
    return ask(reader::read_on_job);
}

std::optional<ForeignReader::Answer> ForeignReader::wait(std::chrono::milliseconds most) {
    if (!becomes_readable(socket_.get(), most)) {
        return std::nullopt;
    }
    Answer answer{};
    std::byte byte{};
    int fd = -1;
    if (receive_message(socket_.get(), {&byte, 1}, {&fd, 1}, MSG_DONTWAIT) != 1) {
        answer.error = EPIPE;
        return answer;
    }
    answer.file = Fd(fd);
    answer.error = shared_->error;
    answer.number = shared_->number;
    answer.bytes = shared_->bytes;
    answer.inode = shared_->inode;
    answer.device = shared_->device;
    answer.owner = shared_->owner;
    answer.took = std::chrono::nanoseconds(shared_->took_ns);
    answer.ran = std::chrono::nanoseconds(shared_->ran_ns);
    if (answer.error == 0 && shared_->has_file && !answer.file) {
        answer.error = EMFILE;  // this process has no free descriptor for it
    }
    return answer;
}

std::span<const std::byte> ForeignReader::buffer() const {
    return std::as_bytes(std::span(shared_->buffer));
}

std::uint64_t ForeignReader::progress() const {
    return shared_->progress.load(std::memory_order_relaxed);
}

}  // namespace gpusnoop
