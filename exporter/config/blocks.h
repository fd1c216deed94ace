// The blocks of a configuration that other folders read: one value of each type.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

namespace gpusnoop::config {

// A type has operator==, and T{} holds the values of an empty file. Copies share the values, which
// do not change.
class Blocks {
public:
    // Valid until the next set().
    template <typename T>
    [[nodiscard]] const T &of() const {
        static const T defaults{};
        const auto found = blocks_.find(typeid(T));
        return found == blocks_.end() ? defaults : static_cast<const Of<T> &>(*found->second).value;
    }

    template <typename T>
    void set(T value) {
        blocks_[typeid(T)] = std::make_shared<const Of<T>>(std::move(value));
    }

    bool operator==(const Blocks &other) const { return agrees(other) && other.agrees(*this); }

private:
    struct Block {
        Block() = default;
        virtual ~Block() = default;
        Block(const Block &) = delete;
        Block &operator=(const Block &) = delete;
        [[nodiscard]] virtual bool agrees(const Blocks &others) const = 0;
    };

    template <typename T>
    struct Of final : Block {
        explicit Of(T of) : value(std::move(of)) {}
        [[nodiscard]] bool agrees(const Blocks &others) const override {
            return value == others.of<T>();
        }
        T value;
    };

    [[nodiscard]] bool agrees(const Blocks &other) const {
        return std::ranges::all_of(blocks_,
                                   [&](const auto &entry) { return entry.second->agrees(other); });
    }

    std::map<std::type_index, std::shared_ptr<const Block>> blocks_;
};

// Every setting of a configuration as text, by its key, to find the differences between two
// configurations.

class Values {
public:
    // `key` is the dotted path. The same value has the same text, whether it is in the file or a
    // default.
    void set(std::string key, std::string text);
    // A change of this key takes effect while the exporter runs.
    void set_live(std::string_view key);
    // The command line overrides this key: the file's value has no effect.
    void erase(std::string_view key);

    // In the order in which they were read.
    [[nodiscard]] std::vector<std::string> keys() const;

    // Always equal: a Values only repeats the settings.
    bool operator==(const Values & /*other*/) const { return true; }

private:
    struct Entry {
        std::string key;
        std::string text;
        bool is_live = false;
    };

    [[nodiscard]] const Entry *find(std::string_view key) const;

    friend std::vector<std::string> keys_for_restart(const Values &started, const Values &wanted);

    std::vector<Entry> entries_;
};

// The keys whose value in `wanted` differs from `started`, the exporter's settings at its start,
// and that only a restart changes.
[[nodiscard]] std::vector<std::string> keys_for_restart(const Values &started,
                                                        const Values &wanted);

}  // namespace gpusnoop::config
