#include "exporter/symbols/stacks/patient_reader.h"

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "exporter/base/read_file.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"
#include "exporter/system/file_keeper.h"

namespace gpusnoop::symbols {

// Addresses over the range of a signed size belong to no process.
Result<std::string> read_memory_at_once(std::uint32_t tgid, std::uint64_t address,
                                        std::size_t size) {
    std::string bytes(size, '\0');
    iovec local{bytes.data(), size};
    iovec remote{reinterpret_cast<void *>(address), size};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(tgid), &local, 1, &remote, 1, 0);
    if (got < 0) {
        return fail_errno("read memory of a process");
    }
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
}

std::optional<std::uint64_t> read_word(std::uint32_t tgid, std::uint64_t address,
                                       const ReadMemory &read) {
    std::uint64_t word = 0;
    const auto bytes = read(tgid, address, sizeof(word));
    if (!bytes || bytes->size() != sizeof(word)) {
        return std::nullopt;
    }
    std::memcpy(&word, bytes->data(), sizeof(word));
    return word;
}

std::optional<std::string> read_string(std::uint32_t tgid, std::uint64_t address,
                                       std::size_t max_bytes, const ReadMemory &read) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::string text;
    while (text.size() < max_bytes) {
        const std::uint64_t from = address + text.size();
        const auto size = static_cast<std::size_t>(
            std::min<std::uint64_t>(page - from % page, max_bytes - text.size()));
        const std::size_t before = text.size();
        const auto bytes = read(tgid, from, size);
        if (!bytes || bytes->size() != size) {
            return std::nullopt;
        }
        text += *bytes;
        if (const std::size_t end = text.find('\0', before); end != std::string::npos) {
            text.resize(end);
            return text;
        }
    }
    return text;
}

std::optional<std::uint64_t> code_start_of(std::uint32_t tgid) {
    constexpr int field = 26;
    const std::string line = read_start("/proc/" + std::to_string(tgid) + "/stat").value_or("");
    // The second field is the process's name in parentheses, which may contain anything.
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream rest(line.substr(name_end + 1));
    std::string skipped;
    for (int i = 3; i < field; ++i) {
        rest >> skipped;
    }
    std::uint64_t start = 0;
    // The kernel shows 0 to readers without the right, and 1 for processes that ended.
    return rest >> start && start > 1 ? std::optional(start) : std::nullopt;
}

namespace {

constexpr std::ptrdiff_t max_stuck = 16;
// So that one user does not keep the names of all others from being found.
constexpr std::ptrdiff_t max_stuck_of_user = 4;
// The longest time for one answer, even if its child makes progress.
constexpr std::chrono::seconds longest{10};

}  // namespace

Result<> PatientReader::prepare(std::uint32_t tgid) {
    std::erase_if(stuck_, [now = Clock::now()](Stuck &stuck) {
        if (stuck.reader && stuck.reader->end()) {
            stuck.reader.reset();
        }
        return !stuck.reader && now >= stuck.until;
    });
    const auto is_waiting = [](const Stuck &stuck) { return stuck.reader != nullptr; };
    const auto waiting = std::ranges::count_if(stuck_, is_waiting);
    // Before the question: the process may end while a child waits for it.
    user_ = processes::sharing_user_of(tgid);
    const auto of_user = std::ranges::count_if(
        stuck_, [&](const Stuck &stuck) { return is_waiting(stuck) && stuck.user == user_; });
    if (waiting >= max_stuck || of_user >= max_stuck_of_user ||
        std::ranges::find(stuck_, tgid, &Stuck::tgid) != stuck_.end()) {
        return fail("it does not answer", ETIMEDOUT);
    }
    if (!reader_) {
        auto reader = ForeignReader::start();
        if (!reader) {
            return tl::unexpected(reader.error());
        }
        reader_ = std::move(*reader);
    }
    return {};
}

Result<ForeignReader::Answer> PatientReader::answer(std::uint32_t tgid, const Result<> &asked) {
    if (!asked) {
        reader_.reset();
        return tl::unexpected(asked.error());
    }
    // With many stuck processes, names of others would be found too late.
    const auto patience =
        stuck_.size() < 4 ? processes::FileOpener::max_wait : processes::FileOpener::max_wait / 10;
    const auto began = Clock::now();
    auto progressed = began;
    std::uint64_t progress = reader_->progress();
    for (;;) {
        if (auto answer = reader_->wait(processes::FileOpener::max_wait / 10)) {
            if (answer->error == EPIPE) {
                reader_.reset();
            }
            return std::move(*answer);
        }
        const auto now = Clock::now();
        if (const std::uint64_t count = reader_->progress(); count != progress) {
            progress = count;
            progressed = now;
        }
        const bool is_silent = now - progressed >= patience || now - began >= longest;
        if (is_silent || limit_.is_reached()) {
            reader_->end();
            // One that had no time to answer is read again as soon as its child is gone.
            stuck_.push_back(
                {std::move(reader_), tgid, user_, is_silent ? now + leave_alone_ : now});
            return fail("it does not answer", ETIMEDOUT);
        }
    }
}

Result<ForeignReader::Answer> PatientReader::find_program(std::uint32_t tgid,
                                                          const std::string &path,
                                                          std::uint64_t inode,
                                                          std::uint64_t bytes) {
    if (const auto prepared = prepare(tgid); !prepared) {
        return tl::unexpected(prepared.error());
    }
    auto opened = answer(tgid, reader_->open("", path));
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    if (opened->error != 0) {
        return fail_errno("open a program", opened->error);
    }
    if (opened->inode != inode || opened->bytes != bytes) {
        opened->file.reset();  // the child closes it last
        (void)answer(tgid, reader_->close());
        return fail("it runs another program", ESRCH);
    }
    return opened;
}

bool PatientReader::is_program(std::uint32_t tgid, const std::string &path, std::uint64_t inode,
                               std::uint64_t bytes) {
    auto found = find_program(tgid, path, inode, bytes);
    if (!found) {
        return false;
    }
    found->file.reset();  // the child closes it last
    return answer(tgid, reader_->close()).has_value();
}

Result<processes::MappedFile> PatientReader::open_program(std::uint32_t tgid,
                                                          const std::string &path,
                                                          std::uint64_t inode, std::uint64_t bytes,
                                                          const Identify &identify) {
    auto opened = find_program(tgid, path, inode, bytes);
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    const auto answers = identify(static_cast<std::uint32_t>(reader_->pid()), *opened);
    if (!answers) {
        opened->file.reset();
        (void)answer(tgid, reader_->close());
        return tl::unexpected(answers.error());
    }
    opened->file = keep_open_elsewhere(std::move(opened->file), user_);
    const bool is_copy = !*answers;
    auto content =
        answer(tgid, is_copy ? reader_->copy(ForeignReader::Part::symbols) : reader_->take());
    if (!content) {
        return tl::unexpected(content.error());
    }
    if (content->error != 0) {
        return fail_errno("read a program", content->error);
    }
    processes::MappedFile file;
    if (is_copy) {
        file.file = std::move(opened->file);
        file.content = std::move(content->file);
    } else {
        file.file = {std::move(content->file), opened->file.kept()};
    }
    return file;
}

Result<Fd> PatientReader::copy_text(std::uint32_t tgid, const std::string &path) {
    if (const auto prepared = prepare(tgid); !prepared) {
        return tl::unexpected(prepared.error());
    }
    const std::string root = "/proc/" + std::to_string(tgid) + "/root";
    auto opened = answer(tgid, reader_->open(root, path));
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    if (opened->error != 0) {
        return fail_errno("open " + path, opened->error);
    }
    opened->file.reset();  // the child closes it last
    if (processes::user_of(tgid) != opened->owner) {
        (void)answer(tgid, reader_->close());
        return fail(path + " belongs to another user", EPERM);
    }
    auto copy = answer(tgid, reader_->copy(ForeignReader::Part::whole_text));
    if (!copy) {
        return tl::unexpected(copy.error());
    }
    return copy->error == 0 ? Result<Fd>(std::move(copy->file))
                            : fail_errno("read " + path, copy->error);
}

Result<std::string> PatientReader::read_memory(std::uint32_t tgid, std::uint64_t address,
                                               std::size_t size) {
    if (const auto prepared = prepare(tgid); !prepared) {
        return tl::unexpected(prepared.error());
    }
    const auto read = answer(tgid, reader_->read_memory(tgid, address, size));
    if (!read) {
        return tl::unexpected(read.error());
    }
    if (read->error != 0) {
        return fail_errno("read memory of a process", read->error);
    }
    const auto bytes = reader_->buffer().first(static_cast<std::size_t>(read->number));
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

}  // namespace gpusnoop::symbols
