// The part of AttachedFiles for functions that are paused because they cost a process too much.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

AttachedFiles::File &AttachedFiles::file_of(const discovery::Library &library) {
    File &file = files_[library.id];
    if (!file.fd) {
        file.fd = duplicate(library.file);
        file.name = library.name;
    }
    return file;
}

Result<discovery::Library> AttachedFiles::library_of(const FileId &id, const File &file) {
    Fd fd = duplicate(file.fd);
    if (!fd) {
        return fail_errno("duplicate a descriptor");
    }
    return discovery::Library{.id = id, .file = std::move(fd), .name = file.name, .path = {}};
}

// It is removed from the configuration, or attached to again, or its file is unused.
void AttachedFiles::forget_paused(const Paused &paused, bool is_removed) {
    table_->change({{paused.number, nullptr, true, is_removed}});
}

std::pair<std::vector<SelectedFunction>, std::size_t> AttachedFiles::without_paused(
    const discovery::Library &library, File &file, const std::vector<SelectedFunction> &wanted) {
    std::vector<SelectedFunction> attached;
    std::map<std::uint64_t, Paused> staying;
    for (const SelectedFunction &function : wanted) {
        const auto found = file.paused.find(function.entry);
        if (found != file.paused.end() &&
            shown_as(library.name, function, found->second.shown.options.entry_only) ==
                found->second.shown) {
            auto paused = file.paused.extract(found);
            paused.mapped().function = function;
            staying.insert(std::move(paused));
        } else {
            attached.push_back(function);
        }
    }
    file.paused.swap(staying);
    for (const auto &[entry, paused] : staying) {
        forget_paused(paused, true);
    }
    return {std::move(attached), staying.size()};
}

void AttachedFiles::change_closing(const discovery::Library &library,
                                   const std::vector<SelectedFunction> &wanted,
                                   std::vector<FunctionIds::Change> &changes) const {
    for (const Closing &closing : closing_) {
        if (closing.file != library.id) {
            continue;
        }
        for (const AttachedFunction &place : closing.link.places) {
            const auto found =
                std::ranges::find(wanted, place.function.entry, &SelectedFunction::entry);
            if (!place.is_wanted || found == wanted.end()) {
                changes.push_back({place.number, nullptr});
                continue;
            }
            auto after = std::make_shared<const FunctionInfo>(
                shown_as(library.name, *found, place.entry_only));
            programs_->set_options(place.number, *after);
            changes.push_back({place.number, std::move(after)});
        }
    }
}

AttachedFiles::Costs AttachedFiles::costs() const {
    const std::lock_guard lock(mutex_);
    Costs costs;
    for (const auto &[id, file] : files_) {
        for (const FunctionLink &link : file.links) {
            for (const AttachedFunction &place : link.places) {
                if (place.is_wanted) {
                    costs.emplace(place.number, Cost{{id, place.function.entry},
                                                     programs_->cost_of_call(place),
                                                     place.can_pause});
                }
            }
        }
    }
    return costs;
}

Result<> AttachedFiles::pause(const FileId &id, const std::set<std::uint64_t> &entries) {
    Lock lock(mutex_);
    const auto is_it = [&](const AttachedFunction &place) {
        return place.is_wanted && place.can_pause && entries.contains(place.function.entry);
    };
    Result<> all;
    for (std::size_t i = 0;;) {
        const auto found = files_.find(id);  // it may have gone meanwhile
        if (found == files_.end()) {
            return fail("the file is not attached to any more");
        }
        File &file = found->second;
        if (i >= file.links.size()) {
            return all;
        }
        if (std::ranges::none_of(file.links[i].places, is_it)) {
            i++;
            continue;
        }
        auto others = attach_others(lock, id, file.links[i], entries);
        if (!others) {
            all = tl::unexpected(others.error());
            i++;
            continue;
        }
        // Here, nobody has changed the file.
        FunctionLink old = std::exchange(file.links[i], std::move(*others));
        exchange(old, file.links[i]);
        for (const AttachedFunction &place : old.places) {
            if (is_it(place)) {
                auto shown = shown_as(file.name, place.function, place.entry_only);
                const std::uint32_t number = table_->add(shown);
                file.paused.insert_or_assign(place.function.entry,
                                             Paused{place.function, std::move(shown), number});
            }
        }
        closing_.push_back({id, std::move(old), entries, now_on(CLOCK_MONOTONIC)});
        if (file.links[i].places.empty()) {
            file.links.erase(file.links.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

// Unlocks meanwhile. Fails if the file has been changed or detached from by then; else all of it
// is as it was.
Result<FunctionLink> AttachedFiles::attach_muted(Lock &lock, const FileId &id,
                                                 const std::vector<SelectedFunction> &functions) {
    const auto library = library_of(id, files_.at(id));
    if (!library) {
        return tl::unexpected(library.error());
    }
    const std::uint64_t version = files_.at(id).version;
    attaching_ = id;
    lock.unlock();
    auto link = programs_->attach(*library, functions, *table_, true);
    lock.lock();
    attaching_.reset();
    const auto found = files_.find(id);
    const bool is_gone = found == files_.end();
    if (!link || (!is_gone && found->second.version == version)) {
        return link;
    }
    Links late;
    late.push_back(std::move(*link));
    release(id, std::move(late), is_gone ? Reason::changed : Reason::unused);
    return fail("the functions of the file have changed meanwhile");
}

// Attaches to the functions of the link without these, muted. Unlocks meanwhile.
Result<FunctionLink> AttachedFiles::attach_others(Lock &lock, const FileId &id,
                                                  const FunctionLink &link,
                                                  const std::set<std::uint64_t> &entries) {
    std::vector<SelectedFunction> others;
    for (const AttachedFunction &place : link.places) {
        if (!FunctionPrograms::can_mute(place.number)) {
            return fail("too many functions are attached to");
        }
        if (place.is_wanted && !entries.contains(place.function.entry)) {
            others.push_back(place.function);
        }
    }
    if (others.empty()) {
        return FunctionLink{};
    }
    auto rest = attach_muted(lock, id, others);
    if (!rest) {
        return rest;
    }
    // What the kernel has allowed for the old link, it may refuse now.
    const auto is_as_before = [&](const AttachedFunction &before) {
        return !before.is_wanted || entries.contains(before.function.entry) ||
               std::ranges::any_of(rest->places, [&](const AttachedFunction &place) {
                   return place.function.entry == before.function.entry &&
                          place.entry_only == before.entry_only;
               });
    };
    if (!std::ranges::all_of(link.places, is_as_before)) {
        Links unused;
        unused.push_back(std::move(*rest));
        release(id, std::move(unused), Reason::unused);
        return fail("the kernel refuses probes that it allowed before");
    }
    return rest;
}

// The old probe is muted first: so no call counts twice, and one may be missed that begins between
// the two.
void AttachedFiles::exchange(const FunctionLink &old, const FunctionLink &with) {
    for (const AttachedFunction &before : old.places) {
        programs_->mute(before.number, true);
        const auto after = std::ranges::find_if(with.places, [&](const AttachedFunction &place) {
            return before.is_wanted && place.function.entry == before.function.entry;
        });
        if (after != with.places.end()) {
            programs_->mute(after->number, false);
        }
    }
}

Result<> AttachedFiles::resume(const FunctionPlace &place) {
    Lock lock(mutex_);
    const auto is_paused = [&] {
        const auto found = files_.find(place.file);
        return found != files_.end() && found->second.paused.contains(place.entry);
    };
    if (!is_paused()) {
        return {};
    }
    auto link =
        attach_muted(lock, place.file, {files_.at(place.file).paused.at(place.entry).function});
    if (!link) {
        return is_paused() ? Result<>(tl::unexpected(link.error())) : Result<>();
    }
    if (link->places.empty()) {
        return fail("the kernel refuses a probe that it allowed before");
    }
    programs_->mute(link->places.front().number, false);
    File &file = files_.at(place.file);
    file.links.push_back(std::move(*link));
    forget_paused(file.paused.extract(place.entry).mapped(), false);
    return {};
}

std::map<FunctionPlace, AttachedFiles::Names> AttachedFiles::paused() const {
    const std::lock_guard lock(mutex_);
    std::map<FunctionPlace, Names> paused;
    for (const auto &[id, file] : files_) {
        for (const auto &[entry, one] : file.paused) {
            paused.emplace(FunctionPlace{id, entry}, Names{one.shown.library, one.shown.name});
        }
    }
    return paused;
}

std::set<std::uint32_t> AttachedFiles::closing(nanoseconds now) const {
    const std::lock_guard lock(mutex_);
    std::set<std::uint32_t> numbers;
    for (const Closing &closing : closing_) {
        if (closing.is_due(now)) {
            for (const AttachedFunction &place : closing.link.places) {
                numbers.insert(place.number);
            }
        }
    }
    return numbers;
}

bool AttachedFiles::Closing::has_calls(const InFlight &in_flight) const {
    return in_flight && std::ranges::any_of(link.places, [&](const AttachedFunction &place) {
               return in_flight->contains(place.number);
           });
}

// For the calls that are in flight.
bool AttachedFiles::Closing::must_stay(nanoseconds now, const InFlight &in_flight) const {
    const nanoseconds age = now - since;
    if (!in_flight) {
        return age < longest_call;
    }
    return std::ranges::any_of(link.places, [&](const AttachedFunction &place) {
        const nanoseconds longest =
            paused.contains(place.function.entry) ? nanoseconds(longest_paused_call) : longest_call;
        return age < longest && in_flight->contains(place.number);
    });
}

void AttachedFiles::close(nanoseconds now, const InFlight &in_flight) {
    const std::lock_guard lock(mutex_);
    std::erase_if(closing_, [&](Closing &closing) {
        const bool has_calls = closing.has_calls(in_flight);
        if (!closing.is_due(now) || (!closing.is_detached && closing.must_stay(now, in_flight))) {
            return false;
        }
        if (closing.is_detached && (has_calls || !*closing.is_detached)) {
            closing.since = now;
            return false;
        }
        if (!has_calls) {  // gives its numbers back, too
            Links links;
            links.push_back(std::move(closing.link));
            release(closing.file, std::move(links), Reason::unused);
            return true;
        }
        closing.since = now;
        closing.is_detached = std::make_shared<std::atomic<bool>>(false);
        detacher_.detach({.file = closing.file,
                          .probes = std::exchange(closing.link.probes, {}),
                          .done = [is_detached = closing.is_detached] { *is_detached = true; }});
        return false;
    });
}

}  // namespace gpusnoop::probes
