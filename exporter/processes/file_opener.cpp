#include "exporter/processes/file_opener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "exporter/base/text/text.h"
#include "exporter/processes/proc.h"
#include "exporter/processes/user_shares.h"
#include "exporter/system/file_keeper.h"

namespace gpusnoop::processes {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The most children at work, and the most that copy: each copy may take as much memory as the file.
constexpr std::size_t max_working = 12;
constexpr std::size_t max_copying = 2;
constexpr std::size_t max_idle = 2;
// Over this limit, only files on file systems that always answer are opened, and by no path.
constexpr std::size_t max_stuck = 24;
constexpr std::ptrdiff_t max_stuck_of_user = 8;
// How long a file system that did not answer is left alone.
constexpr std::chrono::seconds left_alone{5};
// The longest time for one file, even if its child makes progress.
constexpr std::chrono::seconds longest{30};
// For a child to be ready, on a busy machine.
constexpr std::chrono::seconds longest_start{5};

// From linux/magic.h, and from the file systems that are not in it.
constexpr std::array<std::uint32_t, 16> local = {
    0xEF53,      // ext2, ext3, ext4
    0x58465342,  // xfs
    0x9123683E,  // btrfs
    0x01021994,  // tmpfs
    0x858458F6,  // ramfs
    0x958458F6,  // hugetlbfs
    0x73717368,  // squashfs
    0xE0F5E1E2,  // erofs
    0xF2F52010,  // f2fs
    0x2FC12FC1,  // zfs
    0xCA451A4E,  // bcachefs
    0x9660,      // iso9660
    0x4D44,      // fat
    0x2011BAB0,  // exfat
    0x7366746E,  // ntfs3
    0x3153464A,  // jfs
};

bool is_local(const ebpf::Mapping &mapping) {
    return std::ranges::find(local, mapping.file_system) != local.end();
}

}  // namespace

bool always_answers(const ebpf::Mapping &mapping) {
    return !mapping.is_mounted_by_user && is_local(mapping);
}

namespace {

std::string without_mark(std::string_view path) {
    constexpr std::string_view gone = " (deleted)";  // the file's name was deleted
    if (path.ends_with(gone)) {
        path.remove_suffix(gone.size());
    }
    return std::string(path);
}

}  // namespace

std::string mapped_link(const ebpf::Mapping &mapping) {
    return "/proc/" + std::to_string(mapping.tid) + "/map_files/" + hexadecimal(mapping.start) +
           "-" + hexadecimal(mapping.end);
}

Result<std::string> path_in_link(std::string_view link) {
    const std::string path = without_mark(link);
    return path.starts_with('/') ? Result<std::string>(path) : fail("it has no path", EACCES);
}

// Asks for the kernel's own link to the file, which is right even after the path was replaced or
// unlinked, but needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN; else for the file's path below the
// process's root, and then below the exporter's.
Result<> FileOpener::ask_to_open(Opening &opening) {
    const ebpf::Mapping &mapping = opening.mapping_;
    const std::string process = "/proc/" + std::to_string(mapping.tid);
    if (opening.way_ < 0) {
        return opening.reader_->open(opening.again_);
    }
    if (opening.way_ == 0) {
        return opening.reader_->open("", mapped_link(mapping));
    }
    if (!opening.path_) {
        return tl::unexpected(opening.path_.error());
    }
    return opening.reader_->open(opening.way_ == 1 ? process + "/root" : "/", *opening.path_);
}

bool FileOpener::is_blocked(const ebpf::Mapping &mapping) {
    forget_gone();
    std::erase_if(slow_, [now = Clock::now()](const Slow &slow) { return now >= slow.until; });
    // The kernel's own link to it does, too. Of its paths, see answered().
    if (always_answers(mapping) || (stuck_.empty() && slow_.empty())) {
        return false;
    }
    return stuck_.size() >= max_stuck || is_user_over_limit(sharing_user_of(mapping.tgid)) ||
           (!is_local(mapping) &&
            (std::ranges::find(slow_, mapping.file.device, &Slow::device) != slow_.end() ||
             std::ranges::find(stuck_, mapping.file.device, &Stuck::device) != stuck_.end()));
}

bool FileOpener::is_user_over_limit(const std::optional<std::uint32_t> &user) const {
    return std::ranges::count(stuck_, user, &Stuck::user) >= max_stuck_of_user;
}

void FileOpener::forget_gone() {
    std::erase_if(stuck_, [](const Stuck &stuck) { return stuck.reader->end(); });
}

bool FileOpener::has_room(const std::optional<std::uint32_t> &user, bool copies) const {
    Work all;
    for (const auto &[other, work] : at_work_) {
        all.files += work.files;
        all.copies += work.copies;
    }
    const auto known = at_work_.find(user);
    const Work of_user = known == at_work_.end() ? Work() : known->second;
    const auto is_below = [](std::size_t of_all, std::size_t of_one, std::size_t most) {
        return of_all < most && of_one + 1 < most;
    };
    return is_below(all.files, of_user.files, max_working) &&
           (!copies || is_below(all.copies, of_user.copies, max_copying));
}

void FileOpener::end_work(const Opening &opening) {
    const auto work = at_work_.find(opening.user_);
    work->second.files--;
    work->second.copies -= always_answers(opening.mapping_) ? 0 : 1;
    if (work->second.files == 0) {
        at_work_.erase(work);
    }
}

std::optional<Result<>> FileOpener::begin(Opening &opening) {
    const bool copies = !always_answers(opening.mapping_);
    if (is_blocked(opening.mapping_)) {
        return fail("its file system does not answer", ETIMEDOUT);
    }
    if (!opening.path_ && opening.path_.error().code == ETIMEDOUT) {
        return tl::unexpected(opening.path_.error());  // of the process: opening would wait, too
    }
    opening.user_ = sharing_user_of(opening.mapping_.tgid);
    if (!has_room(opening.user_, copies)) {
        return std::nullopt;
    }
    if (idle_.empty()) {
        auto reader = ForeignReader::start(longest_start);
        if (!reader) {
            return fail(reader.error().message, EAGAIN);
        }
        idle_.push_back(std::move(*reader));
    }
    opening.reader_ = std::move(idle_.back());
    idle_.pop_back();
    Work &work = at_work_[opening.user_];
    work.files++;
    work.copies += copies ? 1 : 0;
    opening.progress_.began = opening.progress_.last = Clock::now();
    opening.progress_.count = opening.reader_->progress();
    return ask_to_open(opening);
}

std::optional<Result<MappedFile>> FileOpener::advance(Opening &opening, milliseconds patience) {
    const auto until = Clock::now() + patience;
    if (!opening.reader_) {
        const auto begun = begin(opening);
        if (!begun) {
            return std::nullopt;
        }
        if (!*begun) {
            return end(opening, tl::unexpected(begun->error()));
        }
    }
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
        auto answer = opening.reader_->wait(std::max(left, milliseconds(0)));
        const auto now = Clock::now();
        if (answer) {
            opening.progress_.last = now;
            if (auto result = answered(opening, std::move(*answer))) {
                return result;
            }
            continue;
        }
        if (const std::uint64_t progress = opening.reader_->progress();
            progress != opening.progress_.count ||
            is_runnable(static_cast<std::uint32_t>(opening.reader_->pid()))) {
            opening.progress_.count = progress;
            opening.progress_.last = now;
        }
        if (now - opening.progress_.last >= max_wait || now - opening.progress_.began >= longest) {
            return give_up(opening);
        }
        return std::nullopt;
    }
}

std::optional<Result<MappedFile>> FileOpener::answered(Opening &opening,
                                                       ForeignReader::Answer answer) {
    ForeignReader &reader = *opening.reader_;
    const ebpf::Mapping &mapping = opening.mapping_;
    if (opening.is_found_) {
        if (answer.error != 0) {
            return end(opening, fail_errno("read " + mapping.name, answer.error));
        }
        MappedFile file;
        const bool is_copy = !always_answers(mapping);
        if (is_copy) {
            file.content = std::move(answer.file);
            file.file = std::move(opening.named_);
        } else {
            file.file = {std::move(answer.file), opening.named_.kept()};
        }
        return end(opening, std::move(file));
    }
    if (answer.error == EAGAIN) {
        return end(
            opening,
            fail("a process holds a lease on " + mapping.name + ": it is opened later", EAGAIN));
    }
    opening.is_in_use_ = answer.error == 0 || answer.error == EPIPE;
    if (answer.error == EPIPE) {
        return end(opening, fail("the process that opens it was killed", EAGAIN));
    }
    if (answer.error != 0) {
        opening.last_ = answer.error == EINVAL
                            ? Error{mapping.name + " is not a regular file", EINVAL}
                            : fail_errno("open " + mapping.name, answer.error).value();
    } else if (const auto opened =
                   mappings_->find(static_cast<std::uint32_t>(reader.pid()), answer.number);
               opened && opened->file == mapping.file &&
               (always_answers(*opened) || !always_answers(mapping))) {
        // Whichever way found it, it is the mapped file.
        opening.is_found_ = true;
        opening.named_ = keep_open_elsewhere(std::move(answer.file), opening.user_);
        const auto asked = always_answers(mapping) ? reader.take() : reader.copy(opening.part_);
        return asked ? std::nullopt : std::optional(end(opening, tl::unexpected(asked.error())));
    } else {
        opening.last_ = {"the path " + opening.path() + " leads to another file", EACCES};
    }
    answer.file.reset();  // the child closes it last
    if (++opening.way_ > 2) {
        // It is mapped, so it exists, but the exporter cannot reach it.
        opening.last_.code = opening.last_.code == EINVAL ? EINVAL : EACCES;
        return end(opening, tl::unexpected(opening.last_));
    }
    // A path leads where the process likes, whatever file system the file is on.
    forget_gone();
    if (stuck_.size() >= max_stuck || is_user_over_limit(opening.user_)) {
        return end(opening, fail("its path is not followed while others do not answer", ETIMEDOUT));
    }
    const auto asked = ask_to_open(opening);
    return asked ? std::nullopt : std::optional(end(opening, tl::unexpected(asked.error())));
}

Result<MappedFile> FileOpener::end(Opening &opening, Result<MappedFile> result) {
    if (opening.reader_) {
        used_ = Clock::now();
        end_work(opening);
        if (result || !opening.is_in_use_) {
            // It has no file open, so it ends at once where it is not needed.
            if (idle_.size() < max_idle) {
                idle_.push_back(std::move(opening.reader_));
            }
        } else if (!opening.reader_->end()) {  // it still has another file open
            stuck_.push_back({std::move(opening.reader_), 0, opening.user_});
        }
        opening.reader_.reset();
    }
    return result;
}

Result<MappedFile> FileOpener::give_up(Opening &opening) {
    abandon(opening);
    if (!is_local(opening.mapping_)) {
        slow_.push_back({opening.mapping_.file.device, Clock::now() + left_alone});
    }
    return fail("its file system does not answer", ETIMEDOUT);
}

void FileOpener::abandon(Opening &opening) {
    if (opening.reader_) {
        end_work(opening);
        if (!opening.reader_->end()) {
            stuck_.push_back(
                {std::move(opening.reader_), opening.mapping_.file.device, opening.user_});
        }
        opening.reader_.reset();
    }
}

void FileOpener::rest(std::chrono::seconds unused) {
    if (!idle_.empty() && Clock::now() - used_ >= unused) {
        idle_.clear();
    }
}

Result<MappedFile> FileOpener::open(const ebpf::Mapping &mapping, Result<std::string> path,
                                    ForeignReader::Part part, const WorkLimit &limit) {
    Opening opening(mapping, std::move(path), part);
    while (!limit.is_reached()) {
        if (auto result = advance(opening, max_wait / 10)) {
            return std::move(*result);
        }
    }
    abandon(opening);
    return fail("it takes too long", ETIMEDOUT);
}

}  // namespace gpusnoop::processes
