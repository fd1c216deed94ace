// What the program `ranks` asked NCCL for, and what its communicators must be called: written again
// from docs/functions.md.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

struct UniqueId {
    char internal[128];
};

inline std::uint64_t fnv1a(const char *bytes, std::size_t size) {
    std::uint64_t hash = 14695981039346656037U;
    for (std::size_t i = 0; i < size; i++) {
        hash ^= static_cast<unsigned char>(bytes[i]);
        hash *= 1099511628211U;
    }
    return hash;
}

inline std::uint64_t name_of(const UniqueId &id) {
    return fnv1a(id.internal, sizeof(id.internal));
}

inline std::uint64_t name_of_part(std::uint64_t parent, int number, int color) {
    char text[64];
    const int size = std::snprintf(text, sizeof(text), "split %016llx %d %d",
                                   static_cast<unsigned long long>(parent), number, color);
    return fnv1a(text, static_cast<std::size_t>(size));
}

inline std::uint64_t name_of_shrunk(std::uint64_t parent, int number, const std::string &excluded) {
    char text[64];
    std::snprintf(text, sizeof(text), "shrink %016llx %d", static_cast<unsigned long long>(parent),
                  number);
    const std::string whole = std::string(text) + excluded;
    return fnv1a(whole.data(), whole.size());
}

inline std::string shown(std::uint64_t name) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(name));
    return std::string(text, 8);
}

// A rank of a communicator as it must be shown.
struct Shown {
    std::string communicator;  // "*": it cannot be foreseen
    std::string rank;
    std::string nranks;
};

class Truth {
public:
    void add(const char *function, const char *type, const char *op, const Shown &as,
             std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        Done &done = done_[{function, type, op, as.communicator, as.rank, as.nranks}];
        done.operations++;
        done.bytes += bytes;
    }
    void add_failure() {
        const std::lock_guard lock(mutex_);
        failures_++;
    }
    // Of a communicator that is there at the end.
    void add_sequence(const Shown &as, std::uint64_t collectives) {
        const std::lock_guard lock(mutex_);
        sequences_[{as.communicator, as.rank, as.nranks}] += collectives;
    }
    void print() const {
        for (const auto &[key, done] : done_) {
            const auto &[function, type, op, communicator, rank, nranks] = key;
            std::printf("truth %s %s %s %s %s %s %llu %llu\n", function.c_str(), type.c_str(),
                        op.c_str(), communicator.c_str(), rank.c_str(), nranks.c_str(),
                        static_cast<unsigned long long>(done.operations),
                        static_cast<unsigned long long>(done.bytes));
        }
        for (const auto &[key, collectives] : sequences_) {
            const auto &[communicator, rank, nranks] = key;
            std::printf("sequence %s %s %s %llu\n", communicator.c_str(), rank.c_str(),
                        nranks.c_str(), static_cast<unsigned long long>(collectives));
        }
        std::printf("failures %llu\n", static_cast<unsigned long long>(failures_));
    }

private:
    struct Done {
        std::uint64_t operations = 0;
        std::uint64_t bytes = 0;
    };
    using Key =
        std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;
    std::mutex mutex_;
    std::map<Key, Done> done_;
    std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> sequences_;
    std::uint64_t failures_ = 0;
};
