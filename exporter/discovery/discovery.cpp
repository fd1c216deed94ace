#include "exporter/discovery/discovery.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "exporter/base/log.h"

namespace gpusnoop::discovery {

namespace {

std::string_view last_part(std::string_view path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// Is it worth trying again what failed so?
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

}  // namespace

Discovery::Discovery(Settings settings, std::vector<Attacher *> attachers)
    : settings_(settings), attachers_(std::move(attachers)) {}

Discovery::~Discovery() = default;

Result<std::unique_ptr<Discovery>> Discovery::open(Settings settings,
                                                   std::vector<Attacher *> attachers) {
    std::unique_ptr<Discovery> discovery(new Discovery(settings, std::move(attachers)));
    auto mappings = kernel::MappingList::open();
    if (!mappings) {
        return tl::unexpected(mappings.error());
    }
    discovery->mappings_ = std::move(*mappings);
    auto events = kernel::MmapEvents::open();
    if (events) {
        discovery->events_ = std::move(*events);
    } else {
        log::warn("new processes are found only by the rescan",
                  {{"reason", events.error().message},
                   {"rescan_interval_ms", std::to_string(settings.rescan_interval.count())}});
    }
    return discovery;
}

void Discovery::start() {
    look_at_all(true);
    thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
}

bool Discovery::wanted(std::string_view name) const {
    return std::ranges::any_of(attachers_, [&](const Attacher *one) { return one->wants(name); });
}

void Discovery::run(const std::stop_token &stop) {
    auto rescan_at = std::chrono::steady_clock::now() + settings_.rescan_interval;
    auto look_after_loss_at = std::chrono::steady_clock::now();
    bool missed_some = false;
    while (!stop.stop_requested()) {
        std::set<std::uint32_t> changed;
        if (events_) {
            const std::uint64_t dropped =
                events_->read([&](std::uint32_t tgid, std::string_view path) {
                    if (wanted(last_part(path))) {
                        changed.insert(tgid);
                    }
                });
            missed_some = missed_some || dropped > 0;
        }
        if (!changed.empty()) {
            forget_changed();
        }
        for (const std::uint32_t tgid : changed) {
            look_at(tgid);
        }
        make_changes();
        missed_some = std::exchange(look_again_, false) || missed_some;
        const auto now = std::chrono::steady_clock::now();
        if (now >= rescan_at) {
            look_at_all(true);
            rescan_at = now + settings_.rescan_interval;
            missed_some = false;
        } else if (missed_some && now >= look_after_loss_at) {
            // A storm of mappings must not make us look without a pause.
            look_at_all(false);
            look_after_loss_at = now + std::chrono::seconds(1);
            missed_some = false;
        }
        std::this_thread::sleep_for(settings_.look_interval);
    }
}

void Discovery::look_at(std::uint32_t tgid) {
    const auto mappings = mappings_->read(tgid);
    if (!mappings) {
        log::warn("cannot look at a process",
                  {{"pid", std::to_string(tgid)}, {"reason", mappings.error().message}});
        return;
    }
    consider_all(*mappings);
}

// Every wanted library, and the programs of the processes that map one: a library may be linked
// into them as well. What others call inside comes last, see Attacher::is_inner().
void Discovery::consider_all(const std::vector<kernel::Mapping> &mappings) {
    std::set<std::pair<Attacher *, std::uint32_t>> users;
    std::vector<std::pair<Attacher *, const kernel::Mapping *>> inner;
    for (const kernel::Mapping &mapping : mappings) {
        for (Attacher *attacher : attachers_) {
            if (!attacher->wants(mapping.name)) {
                continue;
            }
            users.emplace(attacher, mapping.tgid);
            if (attacher->is_inner(mapping.name)) {
                inner.emplace_back(attacher, &mapping);
            } else {
                consider(mapping, *attacher, known_[{attacher, mapping.file}]);
            }
        }
    }
    for (const kernel::Mapping &mapping : mappings) {
        for (Attacher *attacher : attachers_) {
            if (mapping.is_program && users.contains({attacher, mapping.tgid})) {
                consider(mapping, *attacher, known_[{attacher, mapping.file}]);
            }
        }
    }
    for (const auto &[attacher, mapping] : inner) {
        consider(*mapping, *attacher, known_[{attacher, mapping->file}]);
    }
}

void Discovery::look_at_all(bool timed) {
    forget_changed();
    const auto mappings = mappings_->read(std::nullopt);
    if (!mappings) {
        log::warn("cannot look at the processes", {{"reason", mappings.error().message}});
        return;
    }
    for (auto &[key, known] : known_) {
        known.idle_rescans += timed ? 1 : 0;
    }
    is_timed_ = timed;
    found_.begin_look();
    consider_all(*mappings);
    found_.end_look();
    is_timed_ = false;
    // Two rescans without a user: a program that is restarted finds the probes still there.
    std::erase_if(known_, [this](const auto &entry) {
        if (entry.second.idle_rescans < 2) {
            return false;
        }
        found_.forget(*entry.first.first, entry.first.second);
        if (entry.second.settled) {
            entry.first.first->detach(entry.first.second, false);
        }
        return true;
    });
}

// A file that was overwritten in place has other code where our probes are, and they would break
// it: let go of it, and look at it anew.
void Discovery::forget_changed() {
    for (auto &[key, known] : known_) {
        if (known.settled && !known.refused && state_of(known.library.file) != known.state) {
            log::warn("a library was overwritten while it was traced",
                      {{"inode", key.second.inode}});
            key.first->detach(key.second, true);
            known.settled = false;
            known.is_due = false;
            known.library.file.reset();
        }
    }
}

void Discovery::consider(const kernel::Mapping &mapping, Attacher &attacher, Known &known) {
    known.idle_rescans = 0;
    // Our own mapping of it: we are identifying the file at this moment, or it is linked into us.
    if (mapping.tgid == static_cast<std::uint32_t>(::getpid())) {
        return;
    }
    found_.used(attacher, mapping.file, mapping.name, mapping.tgid);
    // One that was refused is closed, so whether it is another one now shows at a rescan.
    if (known.refused && is_timed_) {
        const auto state = state_of_mapped(mapping);
        known.refused = known.settled = !state || state == known.state;
    }
    if (known.settled && !known.is_due) {
        return;
    }
    // Whoever is still attached to it: they share the kernel's breakpoints.
    if (std::ranges::any_of(attachers_,
                            [&](Attacher *one) { return one->must_wait_for(mapping.file); })) {
        look_again_ = true;
        return;
    }
    if (known.is_due) {
        if (const auto attached = offer(attacher, known, std::move(known.library)); !attached) {
            complain("cannot attach to a library", mapping, attached.error());
        }
        return;
    }
    auto file = open_mapped(mapping, *mappings_);
    if (!file) {
        // Gone with its process: the next one to map it brings us back.
        if (file.error().code != ENOENT && file.error().code != ESRCH) {
            attacher.failed("open");
            found_.failed(attacher, mapping.file, "cannot be opened: " + file.error().message);
            complain("cannot open a library", mapping, file.error());
        }
        return;
    }
    Library library{mapping.file,       std::move(*file),
                    mapping.name,       mapped_path(mapping).value_or(""),
                    mapping.is_program, mapping.tid};
    if (const auto attached = offer(attacher, known, std::move(library)); !attached) {
        complain("cannot attach to a library", mapping, attached.error());
    }
}

// Any user can have many files of a library's name, all of them bad.
void Discovery::complain(std::string_view message, const kernel::Mapping &mapping,
                         const Error &error) {
    if (const auto more = lines_.due(mapping.name + ": " + error.message)) {
        log::warn(message, {{"library", mapping.name},
                            {"pid", std::to_string(mapping.tgid)},
                            {"reason", error.message},
                            {"more_since_last_line", *more}});
    }
}

// One that cannot be attached to is not tried again while it is in use: the same bytes would fail
// the same way.
Result<> Discovery::offer(Attacher &attacher, Known &known, Library library) {
    const auto state = state_of(library.file);
    auto attached = attacher.attach(library);
    found_.settled(attacher, library);
    if (!attached && attached.error().code != ENOENT && attached.error().code != ESRCH) {
        found_.failed(attacher, library.id, attached.error().message);
    }
    const bool try_again = !attached && may_pass(attached.error().code);
    known.is_due = known.settled && try_again;
    if (known.settled || !try_again) {
        known.settled = true;
        known.refused = !attached && !known.is_due;
        known.library = std::move(library);
        known.state = state;
        if (known.refused) {
            known.library.file.reset();
        }
    }
    return attached;
}

void Discovery::change(Attacher &attacher, std::function<bool()> change) {
    std::future<void> done;
    {
        const std::lock_guard lock(changes_mutex_);
        changes_.push_back({&attacher, std::move(change), {}});
        done = changes_.back().done.get_future();
    }
    done.wait();
}

void Discovery::make_changes() {
    std::vector<Change> changes;
    {
        const std::lock_guard lock(changes_mutex_);
        changes.swap(changes_);
    }
    for (Change &change : changes) {
        if (change.change()) {
            offer_again(*change.attacher);
        }
        change.done.set_value();
    }
}

void Discovery::offer_again(Attacher &attacher) {
    forget_changed();
    for (auto &[key, known] : known_) {
        if (key.first != &attacher || !known.settled) {
            continue;
        }
        if (known.refused) {
            known.refused = known.settled = false;  // the look below opens it again
            continue;
        }
        const std::string name = known.library.name;
        if (const auto attached = offer(attacher, known, std::move(known.library)); !attached) {
            log::warn("cannot attach to a library",
                      {{"library", name}, {"reason", attached.error().message}});
        }
    }
    look_at_all(false);
}

}  // namespace gpusnoop::discovery
