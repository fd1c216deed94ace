// The part of AttachedFiles for functions that are paused because they cost a process too much.
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "exporter/probes/functions/attach/attached_files.h"
#include "exporter/system/machine.h"

namespace gpusnoop::probes {

using std::chrono::nanoseconds;

AttachedFiles::File &AttachedFiles::file_of(const discovery::Library &library) {
    File &file = files_[library.id];
    if (!file.fd) {
        file.fd = Fd(::fcntl(library.file.get(), F_DUPFD_CLOEXEC, 3));
        file.name = library.name;
    }
    return file;
}

Result<discovery::Library> AttachedFiles::library_of(const FileId &id, const File &file) {
    Fd fd(::fcntl(file.fd.get(), F_DUPFD_CLOEXEC, 3));
    if (!fd) {
        return fail_errno("duplicate a descriptor");
    }
    return discovery::Library{.id = id, .file = std::move(fd), .name = file.name, .path = {}};
}

// Its number is released when its link is closed, so the table has to be told in another way that
// no call will count as this function.
void AttachedFiles::forget_paused(const Paused &paused) {
    table_->change({{table_->add(paused.shown), nullptr, true, true}});
}

std::pair<std::vector<SelectedFunction>, std::size_t> AttachedFiles::without_paused(
    const discovery::Library &library, File &file, const std::vector<SelectedFunction> &wanted) {
    std::vector<SelectedFunction> attached;
    std::map<std::uint64_t, Paused> staying;
    for (const SelectedFunction &function : wanted) {
        const auto found = file.paused.find(function.entry);
        if (found != file.paused.end() &&
            shown_as(library, function, found->second.shown.options.entry_only) ==
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
        forget_paused(paused);
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
            auto after =
                std::make_shared<const FunctionInfo>(shown_as(library, *found, place.entry_only));
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
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) {
        return fail("the file is not attached to any more");
    }
    File &file = found->second;
    const auto is_it = [&](const AttachedFunction &place) {
        return place.is_wanted && place.can_pause && entries.contains(place.function.entry);
    };
    Result<> all;
    Links left;
    for (FunctionLink &link : file.links) {
        if (std::ranges::none_of(link.places, is_it)) {
            left.push_back(std::move(link));
            continue;
        }
        auto others = attach_others(id, file, link, entries);
        if (!others) {
            all = tl::unexpected(others.error());
            left.push_back(std::move(link));
            continue;
        }
        exchange(link, *others);
        for (const AttachedFunction &place : link.places) {
            if (is_it(place)) {
                const FunctionInfoPtr shown = table_->find(place.number);
                file.paused.insert_or_assign(
                    place.function.entry,
                    Paused{place.function, shown != nullptr ? *shown : FunctionInfo{}});
            }
        }
        closing_.push_back({id, std::move(link), now_on(CLOCK_MONOTONIC)});
        if (!others->places.empty()) {
            left.push_back(std::move(*others));
        }
    }
    file.links = std::move(left);
    return all;
}

// Attaches to the functions of the link without these, muted.
Result<FunctionLink> AttachedFiles::attach_others(const FileId &id, const File &file,
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
    const auto library = library_of(id, file);
    if (!library) {
        return tl::unexpected(library.error());
    }
    auto rest = programs_->attach(*library, others, *table_, true);
    if (!rest) {
        return rest;
    }
    // What the kernel has allowed for the old link, it may refuse now.
    const auto is_as_before = [&](const AttachedFunction &before) {
        return !before.is_wanted || entries.contains(before.function.entry) ||
               std::ranges::any_of(rest->places, [&](const AttachedFunction &place) {
                   return place.function.entry == before.function.entry &&
                          place.entry_only == before.entry_only &&
                          FunctionPrograms::can_mute(place.number);
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
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(place.file);
    if (found == files_.end() || !found->second.paused.contains(place.entry)) {
        return {};
    }
    File &file = found->second;
    const auto library = library_of(place.file, file);
    if (!library) {
        return tl::unexpected(library.error());
    }
    auto link = programs_->attach(*library, {file.paused.at(place.entry).function}, *table_);
    if (!link) {
        return tl::unexpected(link.error());
    }
    if (link->places.empty()) {
        return fail("the kernel refuses a probe that it allowed before");
    }
    file.links.push_back(std::move(*link));
    file.paused.erase(place.entry);
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
        if (now - closing.since >= settles) {
            for (const AttachedFunction &place : closing.link.places) {
                numbers.insert(place.number);
            }
        }
    }
    return numbers;
}

void AttachedFiles::close(nanoseconds now, const std::set<std::uint32_t> &in_flight) {
    const std::lock_guard lock(mutex_);
    std::erase_if(closing_, [&](Closing &closing) {
        const nanoseconds age = now - closing.since;
        const bool is_used = age < longest_call && std::ranges::any_of(
                                                       closing.link.places,
                                                       [&](const auto &place) {
                                                           return in_flight.contains(place.number);
                                                       });
        if (age < settles || is_used) {
            return false;
        }
        Links links;
        links.push_back(std::move(closing.link));
        release(closing.file, std::move(links), Reason::unused);
        return true;
    });
}

}  // namespace gpusnoop::probes
