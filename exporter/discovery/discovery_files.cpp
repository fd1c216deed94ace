// Opens each file that an attacher wants, and offers it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/discovery/discovery.h"
#include "exporter/system/machine.h"
#include "exporter/system/priority.h"

namespace gpusnoop::discovery {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// After a lease, and after an error that may pass.
constexpr milliseconds before_next_try{500};
// The CPU time for the symbols of one file, for which all other files wait: enough for 1.5 million
// of them on a CPU of 2021. Root's files may have more.
constexpr milliseconds time_for_symbols{300};
constexpr seconds time_for_symbols_of_root{2};
// While a file is read, how often discovery looks whether others wait, and how many times it stops
// reading the file for them.
constexpr milliseconds before_asking_again{5};
constexpr int most_interruptions = 4;
// How long a configuration change waits for files that answer.
constexpr seconds patience_of_changes{5};

// Whether a retry after this error may succeed.
bool may_pass(int code) {
    switch (code) {
        case ENOENT:
        case ESRCH:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case EAGAIN:
        case EINTR:
            return true;
        default:
            return false;
    }
}

bool is_gone(int code) {
    return code == ENOENT || code == ESRCH;
}

// A file system of a user's own can say of any file that root owns it.
bool is_of_root(const Fd &file, const ebpf::Mapping &mapping) {
    struct statx status{};
    return processes::always_answers(mapping) &&
           ::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_UID, &status) == 0 &&
           status.stx_uid == 0;
}

}  // namespace

void Discovery::forget_changed() {
    for (const auto &[key, file] : offers_.files()) {
        if (file.attached && state_of(file.attached->file) != file.attached->state) {
            let_go(key);
        }
    }
}

// A file that was overwritten in place has other code where the probes are; probes would break that
// code.
void Discovery::let_go(const Key &key) {
    if (const auto &attached = offers_.at(key).attached) {
        log::warn("a library was overwritten while it was traced",
                  {{"library", attached->by.name}, {"inode", key.second.inode}});
        key.first->detach(key.second, true);
    }
    abandon(offers_.forget_contents(key));
}

void Discovery::abandon(const std::unique_ptr<processes::FileOpener::Opening> &opening) {
    if (opening) {
        openings_.opener->abandon(*opening);
    }
}

void Discovery::consider(const ebpf::Mapping &mapping, Attacher &attacher) {
    const Key key(&attacher, mapping.file);
    offers_.use(key, Clock::now());
    // The exporter's own mapping of the file: a library that it links.
    if (mapping.tgid == static_cast<std::uint32_t>(::getpid())) {
        return;
    }
    if (mapping.is_by_process()) {
        found_.used(attacher, mapping.file, mapping.name, mapping.tgid);
        const auto heard = news_.mapped_at.find({mapping.tgid, mapping.name});
        attacher.used(mapping,
                      heard == news_.mapped_at.end() ? std::nullopt : std::optional(heard->second));
    } else {
        found_.named(attacher, mapping.file, mapping.name);
    }
    if (is_held(mapping)) {
        hold(key);
        return;
    }
    if (offers_.has_changed(key, mapping)) {
        let_go(key);
    }
    if (offers_.may_begin(key, mapping, Clock::now()) && may_try(mapping)) {
        begin_to_open(mapping, key);
    }
}

void Discovery::begin_to_open(const ebpf::Mapping &mapping, const Key &key) {
    if (must_wait_for_share(key, mapping) || must_wait(key, mapping)) {
        return;
    }
    const auto spending = spend_on(mapping.tgid);
    if (Clock::now() >= openings_.turn_until) {
        offers_.await_turn(key, mapping);
        return;
    }
    const auto &attached = offers_.at(key).attached;
    const std::uint32_t user = mapping.is_by_process() ? user_of(mapping.tgid) : unknown_user;
    if (const auto error = attached ? std::nullopt : over_limit(mapping, user)) {
        refuse(key, mapping, *error);
        return;
    }
    auto path = attached && !attached->path.empty() ? attached->path
                : mapping.is_by_process()           ? kernel_.mappings->path_of(mapping)
                                          : Result<std::string>(kernel_.named->path(mapping.file));
    if (!path && path.error().code == ETIMEDOUT) {
        await_answer(key, mapping, path.error());
        return;
    }
    const Library named{mapping.file, {}, mapping.name, path.value_or(""), mapping.is_program};
    if (is_excluded(key, mapping, named)) {
        return;
    }
    if (kernel_.grace_period) {
        kernel_.grace_period->begin();  // ends while the file is opened and read
    }
    offers_.begin(key,
                  std::make_unique<processes::FileOpener::Opening>(
                      mapping, std::move(path), ForeignReader::Part::symbols_and_code,
                      attached ? attached->file.get() : -1),
                  user);
    advance(key, std::chrono::ceil<milliseconds>(openings_.patience));
}

void Discovery::go_on_opening() {
    openings_.turn_until = Clock::now() + turn;
    for (const Key &key : offers_.in_turn([this](std::uint32_t tgid) { return spent_on(tgid); })) {
        if (Clock::now() >= openings_.turn_until) {
            return;
        }
        if (offers_.at(key).opening) {
            advance(key, milliseconds(0));
        } else if (const auto next = offers_.take_next(key, Clock::now())) {
            begin_to_open(*next, key);
        }
    }
}

// A configuration change waits for the files that answer.
void Discovery::finish_opening() {
    const auto until = Clock::now() + patience_of_changes;
    const auto answers = [this](const Key &key) {
        const File &file = offers_.at(key);
        return file.opening && processes::always_answers(file.opening->mapping());
    };
    while ((offers_.awaits_turn() || std::ranges::any_of(offers_.busy(), answers)) &&
           Clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(1));
        go_on_opening();
    }
}

void Discovery::advance(const Key &key, milliseconds patience) {
    progress_.come_round();  // many files may be due in one round
    auto &opened = *offers_.at(key).opening;
    const auto spending = spend_on(opened.mapping().tgid);
    const auto began = Clock::now();
    auto file = openings_.opener->advance(opened, patience);
    openings_.patience =
        std::max(openings_.patience - (Clock::now() - began), Clock::duration::zero());
    if (!file) {
        return;
    }
    const auto opening = offers_.end_opening(key);
    if (*file) {
        offer(key, *opening, std::move(**file));
    } else {
        refuse(key, opening->mapping(), file->error());
    }
}

bool Discovery::is_excluded(const Key &key, const ebpf::Mapping &mapping, const Library &library) {
    const auto reason =
        settings_.exclude && !offers_.at(key).attached ? settings_.exclude(library) : std::nullopt;
    if (reason) {
        found_.failed(*key.first, mapping.file, *reason);
        offers_.settle(key, mapping.state);
        log::info("library excluded by discovery.exclude",
                  {{"library", mapping.name}, {"reason", *reason}});
    }
    return reason.has_value();
}

// It is tried again soon: also where the process does not answer, or its user's share of time is
// used up, which is a matter of seconds. Each try is within that share. Another user's process that
// maps the same file waits, too, but no longer.
void Discovery::await_answer(const Key &key, const ebpf::Mapping &mapping, const Error &error) {
    offers_.postpone(key, mapping, Clock::now() + before_next_try);
    complain("a library cannot be opened yet", mapping, error);
    found_.failed(*key.first, mapping.file, "cannot be opened yet: " + error.message);
}

// Handles a file that cannot be opened.
void Discovery::refuse(const Key &key, const ebpf::Mapping &mapping, const Error &error) {
    Attacher &attacher = *key.first;
    if (is_gone(error.code)) {
        offers_.try_again(key);  // gone with its process
        return;
    }
    if (may_pass(error.code)) {
        await_answer(key, mapping, error);
        return;
    }
    shares_.failures.note(mapping.tgid);
    found_.failed(attacher, mapping.file, "cannot be opened: " + error.message);
    File &file = offers_.at(key);
    file.is_slow = error.code == ETIMEDOUT;
    attacher.failed(file.is_slow ? "slow" : "open");
    // A file that always answers did not because of this process: another one may have it.
    if (file.is_slow && !processes::always_answers(mapping)) {
        offers_.settle(key, mapping.state);
    } else {
        offers_.refuse(key, mapping.tgid, Clock::now() + settings_.rescan_interval / 2);
    }
    note_slow_files();
    complain("cannot open a library", mapping, error);
}

Result<> Discovery::attach(const Key &key, Library &library, std::uint32_t tgid) {
    const std::uint32_t user = user_of(tgid);
    File &file = offers_.at(key);
    library.limits.others_wait = [this, user, &file, asked = Clock::now()]() mutable {
        if (file.interruptions >= most_interruptions ||
            Clock::now() - asked < before_asking_again) {
            return false;
        }
        asked = Clock::now();
        const bool they_wait = others_wait(user);
        file.interruptions += they_wait ? 1 : 0;
        return they_wait;
    };
    const Unpreferred unpreferred(shares_.files.spent_by(user) >= share_of_user);
    const Turns::Spending spending(shares_.files, user);
    return key.first->attach(library);
}

// A file that cannot be attached to is not tried again while it is in use: the same bytes would
// fail the same way. No descriptor of it stays open.
void Discovery::offer(const Key &key, const processes::FileOpener::Opening &opening,
                      processes::MappedFile file) {
    const ebpf::Mapping &mapping = opening.mapping();
    Attacher &attacher = *key.first;
    const auto state = state_of(file.file);
    Library library{mapping.file,
                    std::move(file.file),
                    mapping.name,
                    opening.path(),
                    mapping.is_program,
                    mapping.tid,
                    std::move(file.content),
                    state.value_or(mapping.state),
                    {},
                    [this] { progress_.come_round(); }};
    library.limits.cpu_until =
        now_on(CLOCK_THREAD_CPUTIME_ID) +
        (is_of_root(library.file, mapping) ? time_for_symbols_of_root : time_for_symbols);
    library.limits.work.stop = openings_.stop;
    // Several of a user's files are opened at once.
    if (is_excluded(key, mapping, library) || must_wait_for_share(key, mapping) ||
        must_wait(key, mapping)) {
        return;
    }
    offers_.at(key).looks_at_locks = 0;
    const auto attached = attach(key, library, mapping.tgid);
    if (!attached && attached.error().code == EAGAIN) {
        // Locked since the question above, or others came first.
        await_unlock(key, mapping, attached.error());
        return;
    }
    found_.settled(attacher, library);
    if (std::exchange(offers_.at(key).is_slow, false)) {
        note_slow_files();
    }
    if (attached) {
        offers_.attach(key, {std::move(library.file), std::move(library.path), state, mapping},
                       mapping.state);
        return;
    }
    if (may_pass(attached.error().code)) {
        offers_.try_again(key);
    } else {
        offers_.reject(key, mapping.state);
    }
    if (!is_gone(attached.error().code)) {
        found_.failed(attacher, library.id, attached.error().message);
        shares_.failures.note(mapping.tgid);
    }
    complain("cannot attach to a library", mapping, attached.error());
}

}  // namespace gpusnoop::discovery
