// The numbers of the members are those of profile.proto of github.com/google/pprof.
#include <map>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "exporter/base/gzip.h"
#include "exporter/probes/profile/profile.h"

namespace gpusnoop::probes {

namespace {

using protozero::pbf_writer;

// Gives each value a number: texts from 0 on, where the first is "", all others from 1 on.
template <typename T>
class Numbers {
public:
    explicit Numbers(std::uint64_t first) : next_(first) {}

    // The number, and whether it is new.
    std::pair<std::uint64_t, bool> of(const T &value) {
        const auto [found, is_new] = numbers_.try_emplace(value, next_);
        next_ += is_new ? 1 : 0;
        return {found->second, is_new};
    }

private:
    std::map<T, std::uint64_t> numbers_;
    std::uint64_t next_;
};

class Encoder {
public:
    explicit Encoder(const Profile &profile) : profile_(profile) { (void)text(""); }

    std::string encode();

private:
    enum Member : std::uint32_t {
        sample_type = 1,
        sample = 2,
        mapping = 3,
        location = 4,
        function = 5,
        string_table = 6,
        time_nanos = 9,
        duration_nanos = 10,
        period_type = 11,
        period = 12,
    };

    std::int64_t text(const std::string &value) {
        const auto [number, is_new] = texts_.of(value);
        if (is_new) {
            strings_.push_back(value);
        }
        return static_cast<std::int64_t>(number);
    }
    void add_value_type(Member member, const char *type, const char *unit) {
        pbf_writer value(out_, member);
        value.add_int64(1, text(type));
        value.add_int64(2, text(unit));
    }
    void add_types();
    void add_label(pbf_writer &to, const char *key, const std::string &value);
    void add_label(pbf_writer &to, const char *key, std::uint32_t value);
    void add_sample(const ProfiledStack &stack);
    std::uint64_t mapping_of(const std::string &module);
    std::uint64_t location_of(const std::string &name, const std::string &module);

    const Profile &profile_;
    std::string data_;
    pbf_writer out_{data_};
    Numbers<std::string> texts_{0};
    std::vector<std::string> strings_;
    Numbers<std::string> mappings_{1};
    Numbers<std::pair<std::string, std::string>> locations_{1};
};

void Encoder::add_types() {
    constexpr std::int64_t second = 1'000'000'000;
    switch (profile_.type) {
        case ProfileType::cpu:
            add_value_type(sample_type, "samples", "count");
            add_value_type(sample_type, "cpu", "nanoseconds");
            add_value_type(period_type, "cpu", "nanoseconds");
            out_.add_int64(period, second / profile_.frequency);
            break;
        case ProfileType::offcpu:
            add_value_type(sample_type, "switches", "count");
            add_value_type(sample_type, "offcpu", "nanoseconds");
            break;
        case ProfileType::page_faults:
            add_value_type(sample_type, "page_faults", "count");
            break;
    }
}

void Encoder::add_label(pbf_writer &to, const char *key, const std::string &value) {
    if (!value.empty()) {
        pbf_writer label(to, 3);
        label.add_int64(1, text(key));
        label.add_int64(2, text(value));
    }
}

void Encoder::add_label(pbf_writer &to, const char *key, std::uint32_t value) {
    pbf_writer label(to, 3);
    label.add_int64(1, text(key));
    label.add_int64(3, value);
}

std::uint64_t Encoder::mapping_of(const std::string &module) {
    if (module.empty()) {
        return 0;
    }
    const auto [number, is_new] = mappings_.of(module);
    if (is_new) {
        pbf_writer one(out_, mapping);
        one.add_uint64(1, number);
        one.add_int64(5, text(module));
        one.add_bool(7, true);  // its functions have names already
    }
    return number;
}

// A function has the number of its location.
std::uint64_t Encoder::location_of(const std::string &name, const std::string &module) {
    const auto [number, is_new] = locations_.of({name, module});
    if (!is_new) {
        return number;
    }
    {
        pbf_writer one(out_, function);
        one.add_uint64(1, number);
        one.add_int64(2, text(name));
        one.add_int64(3, text(name));
        one.add_int64(4, text(module));
    }
    const std::uint64_t in = mapping_of(module);
    pbf_writer one(out_, location);
    one.add_uint64(1, number);
    one.add_uint64(2, in);
    pbf_writer line(one, 4);
    line.add_uint64(1, number);
    return number;
}

void Encoder::add_sample(const ProfiledStack &stack) {
    std::vector<std::uint64_t> locations;
    for (const std::string &kernel : stack.kernel_frames) {
        locations.push_back(location_of(kernel, "[kernel]"));
    }
    for (const symbols::Frame &frame : stack.frames) {
        locations.push_back(location_of(symbols::frame_text(frame), frame.module));
    }
    if (!stack.cuda_call.empty()) {
        locations.push_back(location_of("[in " + stack.cuda_call + "]", ""));
    }
    locations.push_back(location_of(stack.thread, ""));
    std::vector<std::int64_t> values = {static_cast<std::int64_t>(stack.samples)};
    if (profile_.type == ProfileType::cpu) {
        values.push_back(
            static_cast<std::int64_t>(stack.samples * 1'000'000'000 / profile_.frequency));
    } else if (profile_.type == ProfileType::offcpu) {
        values.push_back(static_cast<std::int64_t>(stack.ns));
    }
    pbf_writer one(out_, sample);
    one.add_packed_uint64(1, locations.begin(), locations.end());
    one.add_packed_int64(2, values.begin(), values.end());
    add_label(one, "comm", stack.process.comm);
    add_label(one, "script", stack.process.script);
    add_label(one, "container_id", stack.process.container);
    add_label(one, "slurm_job_id", stack.process.slurm_job_id);
    add_label(one, "thread", stack.thread);
    add_label(one, "cuda_call", stack.cuda_call);
    add_label(one, "pid", stack.pid);
    add_label(one, "tid", stack.tid);
}

std::string Encoder::encode() {
    add_types();
    for (const ProfiledStack &stack : profile_.stacks) {
        add_sample(stack);
    }
    out_.add_int64(time_nanos, profile_.began.count());
    out_.add_int64(duration_nanos, profile_.duration.count());
    for (const std::string &value : strings_) {
        out_.add_string(string_table, value);
    }
    return std::move(data_);
}

}  // namespace

std::optional<std::string> to_pprof(const Profile &profile) {
    return gzip(Encoder(profile).encode());
}

}  // namespace gpusnoop::probes
