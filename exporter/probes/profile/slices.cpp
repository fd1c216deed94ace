#include "exporter/probes/profile/slices.h"

#include <cstring>
#include <map>
#include <utility>

namespace gpusnoop::probes {

namespace {

// The same stack in all generations.
profile_key without_generation(profile_key key) {
    key.user = PROFILE_STACK_ID(key.user);
    key.kernel = PROFILE_STACK_ID(key.kernel);
    key.generation = 0;
    return key;
}

struct ByBytes {
    bool operator()(const profile_key &one, const profile_key &other) const {
        return std::memcmp(&one, &other, sizeof(one)) < 0;
    }
};

}  // namespace

ProfileReading merged(std::span<const ProfileSlice *const> slices, const ProfileReading &current) {
    std::map<profile_key, profile_count, ByBytes> counts;
    const auto add = [&](const ProfileReading &reading) {
        for (const auto &[key, count] : reading) {
            profile_count &sum = counts[without_generation(key)];
            sum.samples += count.samples;
            sum.amount += count.amount;
        }
    };
    for (const ProfileSlice *slice : slices) {
        add(slice->reading);
    }
    add(current);
    return {counts.begin(), counts.end()};
}

void ProfileSlices::add(ProfileSlice slice, std::chrono::nanoseconds oldest) {
    samples_ += slice.reading.size();
    slices_.push_back(std::move(slice));
    while (slices_.size() > 1 && (slices_.front().ended < oldest || samples_ > max_samples)) {
        samples_ -= slices_.front().reading.size();
        slices_.pop_front();
    }
}

std::vector<const ProfileSlice *> ProfileSlices::since(std::chrono::nanoseconds since) const {
    std::vector<const ProfileSlice *> found;
    for (const ProfileSlice &slice : slices_) {
        if (slice.ended >= since) {
            found.push_back(&slice);
        }
    }
    return found;
}

std::vector<const ProfileReading *> ProfileSlices::readings() const {
    std::vector<const ProfileReading *> readings;
    readings.reserve(slices_.size());
    for (const ProfileSlice &slice : slices_) {
        readings.push_back(&slice.reading);
    }
    return readings;
}

}  // namespace gpusnoop::probes
