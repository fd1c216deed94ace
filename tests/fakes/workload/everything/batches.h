// Copies in batches, and memory of the program's own that is registered: the same for both APIs.

#pragma once

#include "workload/everything.h"

#include <cstddef>
#include <vector>

namespace demo {

// As many copies as one record of the probe has, and more.
// CUDA finds the direction of each copy, as with cudaMemcpyDefault: without that, batches are
// empty.
inline std::size_t random_batch(Everything &all) {
    return all.options().default_kind ? all.random(8) == 0 ? 60 + all.random(80) : 1 + all.random(9)
                                      : 0;
}

// The arrays of a batch, with one attribute for the first copies and another for the rest.
template <typename To, typename From>
struct Batch {
    std::vector<To> to;
    std::vector<From> from;
    std::vector<std::size_t> bytes;
    std::vector<standin::CopyAttributes> attributes;
    std::vector<std::size_t> starts;

    void add(const Ends &between, std::size_t size) {
        to.push_back((To)between.to);
        from.push_back((From)between.from);
        bytes.push_back(size);
        if (starts.size() < 2) {
            attributes.emplace_back();
            starts.push_back(bytes.size() - 1);
        }
    }
};

// One that has yet to succeed.
struct NotedCopy {
    Ends between;
    std::size_t bytes;
};
inline void note(Everything &all, const std::vector<NotedCopy> &copies) {
    for (const NotedCopy &copy : copies) {
        all.note_copy(copy.between.kind(), truth::CopyMode::async, copy.bytes);
    }
}

template <typename To, typename From, typename Make>
void copy_batch_by(Everything &all, Make &&make) {
    Batch<To, From> batch;
    std::vector<NotedCopy> copies;
    const std::size_t count = random_batch(all);
    while (copies.size() < count) {
        const Ends between = random_ends(all);
        if (!between) {
            return;
        }
        copies.push_back({between, all.random(Everything::kRoom + 1)});
        batch.add(between, copies.back().bytes);
    }
    if (make(batch) == standin::kSuccess) {
        note(all, copies);
    }
}

// The functions of CUDA 12 have an argument for the index of the copy that failed.
template <typename To, typename From>
void copy_batch(Everything &all,
                const Named<To *, From *, std::size_t *, std::size_t, standin::CopyAttributes *,
                            std::size_t *, std::size_t, std::size_t *, standin::Stream> &function,
                standin::Stream stream) {
    std::size_t failed = 0;
    copy_batch_by<To, From>(all, [&](auto &batch) {
        return all.make(function, batch.to.data(), batch.from.data(), batch.bytes.data(),
                        batch.bytes.size(), batch.attributes.data(), batch.starts.data(),
                        batch.starts.size(), all.coin() ? &failed : nullptr, stream);
    });
}

template <typename To, typename From>
void copy_batch(Everything &all,
                const Named<To *, From *, std::size_t *, std::size_t, standin::CopyAttributes *,
                            std::size_t *, std::size_t, standin::Stream> &function,
                standin::Stream stream) {
    copy_batch_by<To, From>(all, [&](auto &batch) {
        return all.make(function, batch.to.data(), batch.from.data(), batch.bytes.data(),
                        batch.bytes.size(), batch.attributes.data(), batch.starts.data(),
                        batch.starts.size(), stream);
    });
}

template <typename Make>
void copy_batch_3d_by(Everything &all, Make &&make) {
    std::vector<standin::BatchedCopy3D> batch;
    std::vector<NotedCopy> copies;
    const std::size_t count = random_batch(all);
    while (copies.size() < count) {
        const Ends between = random_ends(all);
        if (!between) {
            return;
        }
        standin::BatchedCopy3D &copy = batch.emplace_back();
        // No side of it may be zero.
        copy.extent = {1 + all.random(kPitch), 1 + all.random(kRows), 1 + all.random(4)};
        copy.to.of.memory.pointer = reinterpret_cast<standin::DevicePointer>(between.to);
        copy.from.of.memory.pointer = reinterpret_cast<standin::DevicePointer>(between.from);
        if (all.coin()) {
            copy.to.of.memory.row_length = kPitch;
            copy.from.of.memory.layer_height = kRows;
        }
        copies.push_back({between, copy.extent.width * copy.extent.height * copy.extent.depth});
    }
    if (make(batch) == standin::kSuccess) {
        note(all, copies);
    }
}

inline void copy_batch_3d(Everything &all,
                          const Named<std::size_t, standin::BatchedCopy3D *, std::size_t *,
                                      unsigned long long, standin::Stream> &function,
                          standin::Stream stream) {
    std::size_t failed = 0;
    copy_batch_3d_by(all, [&](auto &batch) {
        return all.make(function, batch.size(), batch.data(), all.coin() ? &failed : nullptr, 0ULL,
                        stream);
    });
}

inline void copy_batch_3d(Everything &all,
                          const Named<std::size_t, standin::BatchedCopy3D *, unsigned long long,
                                      standin::Stream> &function,
                          standin::Stream stream) {
    copy_batch_3d_by(all, [&](auto &batch) {
        return all.make(function, batch.size(), batch.data(), 0ULL, stream);
    });
}

// The second copy is from nowhere, so that none is made.
template <typename To, typename From>
void fail_batch(Everything &all,
                const Named<To *, From *, std::size_t *, std::size_t, standin::CopyAttributes *,
                            std::size_t *, std::size_t, std::size_t *, standin::Stream> &function,
                standin::Stream stream) {
    Batch<To, From> batch;
    for (int i = 0; i < 3; ++i) {
        batch.add(ends(all, false, false), 64);
    }
    batch.from[1] = From{};
    std::size_t failed = 0;
    all.make(function, batch.to.data(), batch.from.data(), batch.bytes.data(), batch.bytes.size(),
             batch.attributes.data(), batch.starts.data(), batch.starts.size(), &failed, stream);
}

inline void register_room(Everything &all, const Named<void *, std::size_t, unsigned> &function) {
    void *const room = all.room_to_register();
    const std::size_t bytes = 1 + all.random(Everything::kRoom);
    if (room != nullptr && all.make(function, room, bytes, 0U) == standin::kSuccess) {
        all.note_allocation(truth::MemoryKind::pinned_host, room, bytes, true);
    }
}

inline void unregister_room(Everything &all, const Named<void *> &function) {
    const auto live = all.pick_registered();
    if (live && all.make(function, live->start) == standin::kSuccess) {
        all.note_free(*live);
    }
}

// It is registered already.
inline void fail_to_register(Everything &all,
                             const Named<void *, std::size_t, unsigned> &function) {
    if (const auto live = all.pick_registered()) {
        all.make(function, live->start, std::size_t{1}, 0U);
    }
}

}  // namespace demo
