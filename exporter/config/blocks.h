// The blocks of a configuration that other folders read: one value of each type.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <typeindex>
#include <typeinfo>
#include <utility>

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

}  // namespace gpusnoop::config
