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
#include "exporter/processes/user_shares.h"
#include "exporter/system/machine.h"
#include "exporter/system/priority.h"

namespace gpusnoop::discovery {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// After a lease, and after an error that may pass.
constexpr seconds before_next_try{1};
// While a probe is being detached from the file.
constexpr milliseconds before_next_wait{20};
// The CPU time for the symbols of one file, for which all other files wait: enough for 1.5 million
// of them on a CPU of 2021. Root's files may have more.
constexpr milliseconds time_for_symbols{300};
constexpr seconds time_for_symbols_of_root{2};
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
    for (auto &[key, known] : known_) {
        if (known.is_attached() && state_of(known.file) != known.attached_as) {
            let_go(key, known);
        }
    }
}

// A file that was overwritten in place has other code where the probes are; probes would break that
// code.
void Discovery::let_go(const Key &key, Known &known) {
    if (known.is_attached()) {
        log::warn("a library was overwritten while it was traced",
                  {{"library", known.last ? known.last->name : ""}, {"inode", key.second.inode}});
        known.file.reset();
        known.path.clear();
        key.first->detach(key.second, true);
    }
    if (known.opening) {
        openings_.opener->abandon(*known.opening);
        known.opening.reset();
    }
    known.settled = known.is_due = false;
}

void Discovery::consider(const ebpf::Mapping &mapping, Attacher &attacher, Known &known) {
    known.idle_rescans = 0;
    known.used_at = Clock::now();
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
    const Key key(&attacher, mapping.file);
    if (is_held(mapping)) {
        hold(key, known);
        return;
    }
    if (known.settled && mapping.state != known.state) {
        let_go(key, known);
    }
    if (known.settled && !known.is_due) {
        return;
    }
    if (known.opening || (Clock::now() < known.not_before &&
                          (known.failed_for == 0 || known.failed_for == mapping.tgid))) {
        known.next = mapping;
        return;
    }
    if (may_try(mapping)) {
        begin_to_open(mapping, key, known);
    }
}

Result<std::string> Discovery::path_of(const ebpf::Mapping &mapping, const Known &known) const {
    if (!known.path.empty()) {
        return known.path;
    }
    return mapping.is_by_process() ? kernel_.mappings->path_of(mapping)
                                   : Result<std::string>(named_->path(mapping.file));
}

void Discovery::begin_to_open(const ebpf::Mapping &mapping, const Key &key, Known &known) {
    if (must_wait_for(mapping.file)) {
        postpone(key, known, mapping, before_next_wait);
        return;
    }
    if (is_locked(key, known, mapping)) {
        return;
    }
    const auto spending = spend_on(mapping.tgid);
    if (Clock::now() >= openings_.turn_until) {
        await_turn(key, known, mapping);
        return;
    }
    known.awaits_turn = false;
    if (const auto error = known.is_attached() ? std::nullopt : over_limit(mapping, known)) {
        refuse(key, known, mapping, *error);
        return;
    }
    auto path = path_of(mapping, known);
    const Library named{mapping.file, {}, mapping.name, path.value_or(""), mapping.is_program};
    if (is_excluded(key, known, mapping, named)) {
        return;
    }
    if (kernel_.grace_period) {
        kernel_.grace_period->begin();  // ends while the file is opened and read
    }
    known.next.reset();
    known.opening = std::make_unique<processes::FileOpener::Opening>(
        mapping, std::move(path), ForeignReader::Part::symbols_and_code, known.file.get());
    advance(key, known, std::chrono::ceil<milliseconds>(openings_.patience));
}

bool Discovery::is_opening() const {
    return std::ranges::any_of(openings_.keys, [this](const Key &key) {
        const Known &known = known_.at(key);
        return known.opening != nullptr || known.awaits_turn;
    });
}

void Discovery::await_turn(const Key &key, Known &known, const ebpf::Mapping &mapping) {
    postpone(key, known, mapping, Clock::duration::zero());
    known.awaits_turn = true;
}

void Discovery::go_on_opening() {
    openings_.turn_until = Clock::now() + turn;
    for (const Key &key : openings_in_turn()) {
        if (Clock::now() >= openings_.turn_until) {
            return;
        }
        Known &known = known_[key];
        if (known.opening) {
            advance(key, known, milliseconds(0));
        } else if (Clock::now() >= known.not_before) {
            openings_.keys.erase(key);
            known.awaits_turn = false;
            if (const auto next = std::exchange(known.next, std::nullopt)) {
                begin_to_open(*next, key, known);
            }
        }
    }
}

// A configuration change waits for the files that answer.
void Discovery::finish_opening() {
    const auto until = Clock::now() + patience_of_changes;
    const auto answers = [this](const Key &key) {
        const Known &known = known_.at(key);
        return known.awaits_turn ||
               (known.opening && processes::always_answers(known.opening->mapping()));
    };
    while (std::ranges::any_of(openings_.keys, answers) && Clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(1));
        go_on_opening();
    }
}

void Discovery::advance(const Key &key, Known &known, milliseconds patience) {
    progress_.come_round();  // many files may be due in one round
    const auto spending = spend_on(known.opening->mapping().tgid);
    const auto began = Clock::now();
    auto file = openings_.opener->advance(*known.opening, patience);
    openings_.patience =
        std::max(openings_.patience - (Clock::now() - began), Clock::duration::zero());
    if (!file) {
        openings_.keys.insert(key);
        return;
    }
    const auto opening = std::move(known.opening);
    openings_.keys.erase(key);
    if (*file) {
        const Unpreferred unpreferred(spent_on(opening->mapping().tgid) >= turn);
        offer(key, known, *opening, std::move(**file));
    } else {
        refuse(key, known, opening->mapping(), file->error());
    }
}

void Discovery::postpone(const Key &key, Known &known, const ebpf::Mapping &mapping,
                         Clock::duration delay) {
    known.not_before = Clock::now() + delay;
    known.failed_for = 0;
    known.next = mapping;
    openings_.keys.insert(key);
}

void Discovery::settle(Known &known, const ebpf::Mapping &mapping) {
    known.settled = true;
    known.is_due = false;
    known.state = mapping.state;
}

void Discovery::count_slow_files() {
    progress_.note_slow_files(static_cast<std::uint64_t>(
        std::ranges::count_if(known_, [](const auto &entry) { return entry.second.is_slow; })));
}

bool Discovery::is_excluded(const Key &key, Known &known, const ebpf::Mapping &mapping,
                            const Library &library) {
    const auto reason =
        settings_.exclude && !known.is_attached() ? settings_.exclude(library) : std::nullopt;
    if (reason) {
        found_.failed(*key.first, mapping.file, *reason);
        settle(known, mapping);
        log::info("library excluded by discovery.exclude",
                  {{"library", mapping.name}, {"reason", *reason}});
    }
    return reason.has_value();
}

// Handles a file that cannot be opened.
void Discovery::refuse(const Key &key, Known &known, const ebpf::Mapping &mapping,
                       const Error &error) {
    Attacher &attacher = *key.first;
    if (is_gone(error.code)) {
        // Gone with its process: another process that maps it brings it back.
        if (known.next) {
            openings_.keys.insert(key);
        }
        return;
    }
    if (may_pass(error.code)) {
        postpone(key, known, mapping, before_next_try);
        complain("a library cannot be opened yet", mapping, error);
        found_.failed(attacher, mapping.file, "cannot be opened yet: " + error.message);
        return;
    }
    failures_.note(mapping.tgid);
    found_.failed(attacher, mapping.file, "cannot be opened: " + error.message);
    known.is_slow = error.code == ETIMEDOUT;
    attacher.failed(known.is_slow ? "slow" : "open");
    // A file that always answers did not because of this process: another one may have it.
    if (known.is_slow && !processes::always_answers(mapping)) {
        settle(known, mapping);
    } else {
        known.not_before = Clock::now() + settings_.rescan_interval / 2;
        known.failed_for = mapping.tgid;
    }
    count_slow_files();
    complain("cannot open a library", mapping, error);
}

// A file that cannot be attached to is not tried again while it is in use: the same bytes would
// fail the same way. No descriptor of it stays open.
void Discovery::offer(const Key &key, Known &known, const processes::FileOpener::Opening &opening,
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
    if (is_excluded(key, known, mapping, library)) {
        return;
    }
    if (must_wait_for(mapping.file)) {
        postpone(key, known, mapping, before_next_wait);
        return;
    }
    if (is_locked(key, known, mapping)) {
        return;
    }
    known.looks_at_locks = 0;
    const auto attached = attacher.attach(library);
    if (!attached && attached.error().code == EAGAIN) {
        await_unlock(key, known, mapping, attached.error());  // locked since the question above
        return;
    }
    found_.settled(attacher, library);
    if (std::exchange(known.is_slow, false)) {
        count_slow_files();
    }
    const bool try_again = !attached && may_pass(attached.error().code);
    if (!try_again) {
        settle(known, mapping);
    }
    known.last = mapping;
    if (attached) {
        known.file = std::move(library.file);
        known.path = std::move(library.path);
        known.attached_as = state;
        newly_attached_.push_back(key);
        return;
    }
    if (!try_again) {
        known.file.reset();
        known.path.clear();
    }
    if (!is_gone(attached.error().code)) {
        found_.failed(attacher, library.id, attached.error().message);
        failures_.note(mapping.tgid);
    }
    complain("cannot attach to a library", mapping, attached.error());
}

}  // namespace gpusnoop::discovery
