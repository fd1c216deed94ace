// The numbers of the members are those of profile.proto of github.com/google/pprof.

#include <map>
#include <protozero/pbf_writer.hpp>
#include <tuple>
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
    struct Mapping {
        std::uint64_t number;
        bool has_functions = true;  // all of its code has names
    };
    // A file, its build id, and where its segment is in it.
    using Segment = std::tuple<std::string, std::string, std::uint64_t, std::uint64_t>;
    // The code of a frame: what is known of it.
    struct Code {
        std::string name;
        std::string module;
        symbols::CodePlace place{};
    };
    Mapping *mapping_of(const Code &code);
    std::uint64_t function_of(const Code &code);
    std::uint64_t location_of(const Code &code, bool has_name = true);
    void add_mappings();

    const Profile &profile_;
    std::string data_;
    pbf_writer out_{data_};
    Numbers<std::string> texts_{0};
    std::vector<std::string> strings_;
    std::map<Segment, Mapping> mappings_;
    Numbers<std::pair<std::string, std::string>> functions_{1};
    // By mapping, address, and function.
    Numbers<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> locations_{1};
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
        case ProfileType::heap:  // by the names that Go's own profiles have
            add_value_type(sample_type, "inuse_objects", "count");
            add_value_type(sample_type, "inuse_space", "bytes");
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

// Null: it lies in no file.
Encoder::Mapping *Encoder::mapping_of(const Code &code) {
    if (code.module.empty()) {
        return nullptr;
    }
    const symbols::CodeSegment *const in = code.place.segment.get();
    const auto [found, unused] = mappings_.try_emplace(
        in == nullptr ? Segment(code.module, "", 0, 0)
                      : Segment(in->file, in->build_id, in->offset, in->bytes),
        Mapping{.number = mappings_.size() + 1});
    return &found->second;
}

// Each segment has addresses of its own, as if one process had mapped all of them: the same code of
// several processes is one place.
std::uint64_t start_of(std::uint64_t mapping) {
    return mapping << 40U;
}

void Encoder::add_mappings() {
    for (const auto &[segment, its] : mappings_) {
        const auto &[file, build_id, offset, bytes] = segment;
        pbf_writer one(out_, mapping);
        one.add_uint64(1, its.number);
        if (bytes > 0) {
            one.add_uint64(2, start_of(its.number));
            one.add_uint64(3, start_of(its.number) + bytes);
            one.add_uint64(4, offset);
        }
        one.add_int64(5, text(file));
        one.add_int64(6, text(build_id));
        one.add_bool(7, its.has_functions);
    }
}

std::uint64_t Encoder::function_of(const Code &code) {
    const auto [number, is_new] = functions_.of({code.name, code.module});
    if (is_new) {
        pbf_writer one(out_, function);
        one.add_uint64(1, number);
        one.add_int64(2, text(code.name));
        one.add_int64(3, text(code.name));
        one.add_int64(4, text(code.module));
    }
    return number;
}

// Without a name, the reader of the profile looks for one, by the build id.
std::uint64_t Encoder::location_of(const Code &code, bool has_name) {
    Mapping *const in = mapping_of(code);
    const std::uint64_t its_mapping = in == nullptr ? 0 : in->number;
    std::uint64_t address = 0;
    std::uint64_t its_function = 0;
    if (const auto &segment = code.place.segment) {
        address = start_of(its_mapping) + code.place.offset - segment->offset;
        has_name = has_name || segment->build_id.empty() || in == nullptr;
    } else {
        has_name = true;
    }
    if (has_name) {
        its_function = function_of(code);
    } else {
        in->has_functions = false;
    }
    const auto [number, is_new] = locations_.of({its_mapping, address, its_function});
    if (is_new) {
        pbf_writer one(out_, location);
        one.add_uint64(1, number);
        one.add_uint64(2, its_mapping);
        one.add_uint64(3, address);
        if (has_name) {
            pbf_writer line(one, 4);
            line.add_uint64(1, its_function);
        }
    }
    return number;
}

void Encoder::add_sample(const ProfiledStack &stack) {
    std::vector<std::uint64_t> locations;
    for (const std::string &kernel : stack.kernel_frames) {
        locations.push_back(location_of({.name = kernel, .module = "[kernel]"}));
    }
    for (std::size_t i = 0; i < stack.frames.size(); i++) {
        const symbols::Frame &frame = stack.frames[i];
        locations.push_back(
            location_of({.name = symbols::frame_text(frame),
                         .module = frame.module,
                         .place = i < stack.places.size() ? stack.places[i] : symbols::CodePlace()},
                        !frame.function.empty()));
    }
    if (!stack.cuda_call.empty()) {
        locations.push_back(location_of({.name = "[in " + stack.cuda_call + "]", .module = ""}));
    }
    locations.push_back(location_of({.name = stack.thread, .module = ""}));
    std::vector<std::int64_t> values = {static_cast<std::int64_t>(stack.samples)};
    if (profile_.type == ProfileType::cpu) {
        values.push_back(
            static_cast<std::int64_t>(stack.samples * 1'000'000'000 / profile_.frequency));
    } else if (has_amount(profile_.type)) {
        values.push_back(static_cast<std::int64_t>(stack.amount));
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
    add_mappings();
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
