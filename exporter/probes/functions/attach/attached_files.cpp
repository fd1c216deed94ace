#include "exporter/probes/functions/attach/attached_files.h"

#include <algorithm>
#include <iterator>

#include "exporter/probes/functions/limit/dear_functions.h"

namespace gpusnoop::probes {

namespace {

bool is_wanted(const FunctionLink &link) {
    return std::ranges::any_of(link.places, &AttachedFunction::is_wanted);
}

std::vector<AttachedFunction *> places_of(std::vector<FunctionLink> &links) {
    std::vector<AttachedFunction *> places;
    for (FunctionLink &link : links) {
        for (AttachedFunction &place : link.places) {
            places.push_back(&place);
        }
    }
    return places;
}

}  // namespace

AttachedFiles::~AttachedFiles() {
    for (auto &[id, file] : files_) {
        for (FunctionLink &link : file.links) {
            detacher_.detach({.file = id, .probes = std::move(link.probes)});
        }
    }
    for (Closing &closing : closing_) {
        detacher_.detach({.file = closing.file, .probes = std::move(closing.link.probes)});
    }
}

Result<AttachedFiles::Links> AttachedFiles::attach(
    const discovery::Library &library, const std::vector<const SelectedFunction *> &functions) {
    // Functions that are attached together can only be detached together. Detaching a link takes
    // time, so a function has its own link only if necessary. Those that are never paused have
    // another link than those that may be: a call of a wait can last long, and would keep a link
    // that is to be closed.
    std::map<std::pair<std::string, bool>, std::vector<SelectedFunction>> together;
    for (const SelectedFunction *function : functions) {
        const bool alone = programs_->mode() == ebpf::AttachMode::perf;
        together[{alone ? std::to_string(function->entry) : function->group,
                  is_always_observed(function->symbol)}]
            .push_back(*function);
    }
    Links links;
    for (const auto &[name, of_link] : together) {
        auto link = programs_->attach(library, of_link, *table_);
        if (!link) {
            release(library.id, std::move(links), Reason::unused);
            return tl::unexpected(link.error());
        }
        links.push_back(std::move(*link));
    }
    return links;
}

Result<AttachedFiles::Change> AttachedFiles::change(const discovery::Library &library,
                                                    const std::vector<SelectedFunction> &wanted) {
    const std::lock_guard lock(mutex_);
    File &file = file_of(library);
    file.version = ++versions_;
    Links &links = file.links;
    const auto [attached, unpaused] = without_paused(library, file, wanted);
    const AttachPlan plan = plan_change(places_of(links), attached);
    Change change{.functions = plan.keep.size() + file.paused.size(),
                  .dropped = plan.drop.size() + unpaused};

    std::vector<FunctionIds::Change> changes;
    for (const auto &[place, function] : plan.keep) {
        const auto before = table_->find(place->number);
        auto after = std::make_shared<const FunctionInfo>(
            shown_as(library.name, *function, place->entry_only));
        change.added += place->is_wanted ? 0 : 1;
        change.changed += place->is_wanted && before != nullptr && *before != *after ? 1 : 0;
        place->function = *function;
        programs_->set_options(place->number, *after);
        changes.push_back({place->number, std::move(after)});
    }
    for (AttachedFunction *place : plan.drop) {
        programs_->mute(place->number, true);
        place->is_wanted = false;
        changes.push_back({place->number, nullptr});
    }
    change_closing(library, wanted, changes);
    table_->change(std::move(changes));
    // Unmute only now, after the change of their numbers.
    for (const auto &[place, function] : plan.keep) {
        if (!place->is_wanted) {
            programs_->mute(place->number, false);
            place->is_wanted = true;
        }
    }

    auto added = attach(library, plan.add);
    if (added) {
        for (FunctionLink &link : *added) {
            change.added += link.places.size();
            change.functions += link.places.size();
            std::ranges::move(link.refused, std::back_inserter(change.refused));
            links.push_back(std::move(link));
        }
    }
    const auto unwanted = std::ranges::partition(links, is_wanted);
    Links gone(std::make_move_iterator(unwanted.begin()), std::make_move_iterator(unwanted.end()));
    links.erase(unwanted.begin(), unwanted.end());
    if (links.empty() && file.paused.empty()) {
        files_.erase(library.id);
    }
    release(library.id, std::move(gone), Reason::removed);
    if (!added) {
        return tl::unexpected(added.error());
    }
    return change;
}

void AttachedFiles::detach(const FileId &id, Reason reason) {
    const std::lock_guard lock(mutex_);
    if (auto file = files_.extract(id)) {
        release(id, std::move(file.mapped().links), reason);
        for (const auto &[entry, paused] : file.mapped().paused) {
            forget_paused(paused, reason == Reason::removed);
        }
    }
    detach_closing(id, reason);
    if (reason == Reason::changed) {
        detacher_.detach({.file = id, .is_changed = true});  // what is being detached, too
    }
}

// What is closed already has given its probes away; calls in flight keep its numbers.
void AttachedFiles::detach_closing(const FileId &id, Reason reason) {
    Links open;
    std::vector<FunctionIds::Change> removed;
    std::erase_if(closing_, [&](Closing &one) {
        if (one.file != id) {
            return false;
        }
        if (one.is_detached) {
            for (const AttachedFunction &place : one.link.places) {
                removed.push_back({place.number, nullptr});
            }
            return false;
        }
        open.push_back(std::move(one.link));
        return true;
    });
    release(id, std::move(open), reason);
    if (reason == Reason::removed) {
        table_->change(std::move(removed));
    }
}

bool AttachedFiles::must_wait_for(const FileId &id) {
    const std::lock_guard lock(mutex_);
    // What is attached meanwhile will be detached at once.
    return (attaching_ == id && !files_.contains(id)) || detacher_.must_wait_for(id);
}

bool AttachedFiles::has(const FileId &id) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(id);
}

AttachedLibraries::Functions AttachedFiles::functions(const FileId &id) const {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(id);
    AttachedLibraries::Functions count;
    const auto add = [&](const SelectedFunction &function) {
        count.attached++;
        count.expensive += function.entry_probe.is_expensive ? 1 : 0;
    };
    if (file != files_.end()) {
        for (const FunctionLink &link : file->second.links) {
            for (const AttachedFunction &place : link.places) {
                if (place.is_wanted) {
                    add(place.function);
                }
            }
        }
        for (const auto &[entry, paused] : file->second.paused) {
            add(paused.function);
        }
    }
    return count;
}

// Mutes them until they are detached, as the same functions may be attached to again before that.
// Only after that no record has their numbers any more.
void AttachedFiles::release(const FileId &id, Links links, Reason reason) {
    const bool is_removed = reason == Reason::removed;
    for (FunctionLink &link : links) {
        std::vector<FunctionIds::Change> muted;
        std::vector<FunctionIds::Change> released;
        for (const AttachedFunction &place : link.places) {
            programs_->mute(place.number, true);
            muted.push_back({place.number, nullptr});
            released.push_back({place.number, nullptr, true, is_removed});
        }
        if (is_removed) {
            table_->change(std::move(muted));
        }
        detacher_.detach({.file = id,
                          .probes = std::move(link.probes),
                          .is_changed = reason == Reason::changed,
                          .done = [this, released = std::move(released)] {
                              for (const FunctionIds::Change &change : released) {
                                  programs_->mute(change.number, false);
                              }
                              table_->change(released);
                          }});
    }
}

}  // namespace gpusnoop::probes
