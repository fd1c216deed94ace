#include "exporter/config/blocks.h"

namespace gpusnoop::config {

void Values::set(std::string key, std::string text) {
    entries_.push_back({std::move(key), std::move(text)});
}

void Values::set_live(std::string_view key) {
    for (Entry &entry : entries_) {
        entry.is_live = entry.is_live || entry.key == key;
    }
}

void Values::erase(std::string_view key) {
    std::erase_if(entries_, [&](const Entry &entry) { return entry.key == key; });
}

std::vector<std::string> Values::keys() const {
    std::vector<std::string> keys;
    for (const Entry &entry : entries_) {
        keys.push_back(entry.key);
    }
    return keys;
}

const Values::Entry *Values::find(std::string_view key) const {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::string> keys_for_restart(const Values &started, const Values &wanted) {
    std::vector<std::string> keys;
    for (const Values::Entry &entry : started.entries_) {
        const Values::Entry *const now = wanted.find(entry.key);
        if (!entry.is_live && now != nullptr && now->text != entry.text) {
            keys.push_back(entry.key);
        }
    }
    return keys;
}

}  // namespace gpusnoop::config
