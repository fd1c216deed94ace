// The forms of a profile.
#include <zlib.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "exporter/probes/profile/profile.h"

using namespace gpusnoop::probes;
using Json = nlohmann::json;

namespace {

ProfiledStack stack_of(std::uint64_t samples, std::uint64_t ns) {
    ProfiledStack stack;
    stack.process = {.comm = "python 3",
                     .script = "train.py",
                     .container = "",
                     .slurm_job_id = "4711",
                     .user = ""};
    stack.pid = 7;
    stack.tid = 8;
    stack.thread = "main;1";
    stack.cuda_call = "cudaMalloc";
    stack.frames = {{.function = "read", .module = "libc.so.6", .offset = 1},
                    {.function = "", .module = "train", .offset = 0x20},
                    {.function = "main", .module = "train", .offset = 3}};
    stack.kernel_frames = {"[waits for a CPU]", "vfs_read"};
    stack.samples = samples;
    stack.amount = ns;
    return stack;
}

Profile profile_of(ProfileType type) {
    Profile profile;
    profile.type = type;
    profile.began = std::chrono::seconds(10);
    profile.duration = std::chrono::seconds(2);
    profile.frequency = 50;
    profile.stacks = {stack_of(2, 1'500'000), stack_of(3, 500'999)};
    profile.stacks[1].tid = 9;
    return profile;
}

std::string unpacked(const std::string &packed) {
    std::string text(1 << 16, '\0');
    z_stream stream{};
    REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef *>(text.data());
    stream.avail_out = static_cast<uInt>(text.size());
    CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
    text.resize(stream.total_out);
    inflateEnd(&stream);
    return text;
}

}  // namespace

TEST_CASE("a folded line has the thread, the CUDA call and both stacks, and adds up") {
    const std::string line =
        "python_3;main:1;[in_cudaMalloc];main;train+0x20;read;vfs_read_[k];[waits_for_a_CPU] ";
    CHECK(to_folded(profile_of(ProfileType::cpu)) == line + "5\n");
    CHECK(to_folded(profile_of(ProfileType::offcpu)) == line + "2000\n");
    CHECK(to_folded(profile_of(ProfileType::heap)) == line + "2000999\n");
    CHECK(to_folded(Profile()).empty());
}

TEST_CASE("frames in a row that nobody knows are one in a flame graph") {
    ProfiledStack stack = stack_of(1, 0);
    stack.cuda_call = "";
    stack.kernel_frames = {};
    stack.frames = {{}, {.function = "read", .module = "libc.so.6", .offset = 1}, {}, {}, {}};
    CHECK(frame_names(stack) ==
          std::vector<std::string>{"main;1", "[unknown]", "read", "[unknown]"});
}

TEST_CASE("a profile as JSON has each thread's stack") {
    const Json json = Json::parse(to_json(profile_of(ProfileType::offcpu)));
    CHECK(json.at("type") == "offcpu");
    CHECK(json.at("began") == "1970-01-01T00:00:10.000000000Z");
    CHECK(json.at("seconds") == 2.0);
    CHECK(json.at("frequency").is_null());
    REQUIRE(json.at("stacks").size() == 2);
    const Json &stack = json.at("stacks")[1];
    CHECK(stack.at("tid") == 9);
    CHECK(stack.at("comm") == "python 3");
    CHECK(stack.at("cuda_call") == "cudaMalloc");
    CHECK(stack.at("seconds") == 0.000500999);
    CHECK(stack.at("bytes").is_null());
    CHECK(stack.at("kernel_stack") == Json({"[waits for a CPU]", "vfs_read"}));
    CHECK(stack.at("stack")[1].at("function").is_null());
    CHECK(Json::parse(to_json(profile_of(ProfileType::cpu))).at("frequency") == 50);
    const Json heap = Json::parse(to_json(profile_of(ProfileType::heap))).at("stacks")[1];
    CHECK(heap.at("bytes") == 500'999);
    CHECK(heap.at("samples") == 3);
    CHECK(heap.at("seconds").is_null());
}

TEST_CASE("a profile for pprof names each function once") {
    const std::string data = unpacked(to_pprof(profile_of(ProfileType::cpu)).value());
    std::vector<std::string> texts;
    std::vector<std::vector<std::int64_t>> values;
    std::vector<std::vector<std::uint64_t>> locations;
    int functions = 0;
    std::int64_t period = 0;
    protozero::pbf_reader reader(data);
    while (reader.next()) {
        switch (reader.tag()) {
            case 2: {
                auto sample = reader.get_message();
                while (sample.next()) {
                    if (sample.tag() == 1) {
                        const auto range = sample.get_packed_uint64();
                        locations.emplace_back(range.begin(), range.end());
                    } else if (sample.tag() == 2) {
                        const auto range = sample.get_packed_int64();
                        values.emplace_back(range.begin(), range.end());
                    } else {
                        sample.skip();
                    }
                }
                break;
            }
            case 5:
                functions++;
                reader.skip();
                break;
            case 6:
                texts.push_back(reader.get_string());
                break;
            case 12:
                period = reader.get_int64();
                break;
            default:
                reader.skip();
        }
    }
    REQUIRE_FALSE(texts.empty());
    CHECK(texts.front().empty());
    CHECK(std::ranges::count(texts, "vfs_read") == 1);
    CHECK(functions == 7);
    CHECK(period == 20'000'000);
    CHECK(values == std::vector<std::vector<std::int64_t>>{{2, 40'000'000}, {3, 60'000'000}});
    REQUIRE(locations.size() == 2);
    CHECK(locations[0] == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7});
    CHECK(locations[0] == locations[1]);
}

TEST_CASE("a profile for pprof has the addresses and the build ids of its code") {
    const auto segment =
        std::make_shared<const gpusnoop::symbols::CodeSegment>(gpusnoop::symbols::CodeSegment{
            .file = "train", .build_id = "c0ffee", .offset = 0x1000, .bytes = 0x5000});
    Profile profile = profile_of(ProfileType::page_faults);
    for (ProfiledStack &stack : profile.stacks) {
        stack.places.resize(3);
        stack.places[1] = {.segment = segment, .offset = 0x1020};  // has no name
        stack.places[2] = {.segment = segment, .offset = 0x2003};
    }
    const std::string data = unpacked(to_pprof(profile).value());
    std::vector<std::string> texts;
    struct Mapping {
        std::uint64_t id, start, limit, offset, build_id, has_functions;
    };
    std::vector<Mapping> mappings;
    struct Location {
        std::uint64_t mapping = 0;
        std::uint64_t address = 0;
        int lines = 0;
    };
    std::vector<Location> locations;
    protozero::pbf_reader reader(data);
    while (reader.next()) {
        if (reader.tag() == 3) {
            auto one = reader.get_message();
            std::uint64_t values[8] = {};
            while (one.next()) {
                values[one.tag()] = one.get_uint64();
            }
            mappings.push_back({values[1], values[2], values[3], values[4], values[6], values[7]});
        } else if (reader.tag() == 4) {
            auto one = reader.get_message();
            Location &location = locations.emplace_back();
            while (one.next()) {
                if (one.tag() == 2) {
                    location.mapping = one.get_uint64();
                } else if (one.tag() == 3) {
                    location.address = one.get_uint64();
                } else {
                    location.lines += one.tag() == 4 ? 1 : 0;
                    one.skip();
                }
            }
        } else if (reader.tag() == 6) {
            texts.push_back(reader.get_string());
        } else {
            reader.skip();
        }
    }
    const auto its = std::ranges::find_if(
        mappings, [&](const Mapping &one) { return texts.at(one.build_id) == "c0ffee"; });
    REQUIRE(its != mappings.end());
    CHECK(its->limit - its->start == 0x5000);
    CHECK(its->offset == 0x1000);
    CHECK(its->has_functions == 0);  // one of its two has none
    std::vector<std::uint64_t> in_file;
    for (const Location &location : locations) {
        if (location.mapping == its->id) {
            in_file.push_back(location.address - its->start + its->offset);
            CHECK(location.lines == (in_file.back() == 0x1020 ? 0 : 1));
        }
    }
    CHECK(in_file == std::vector<std::uint64_t>{0x1020, 0x2003});
}

TEST_CASE("a profile as a flame graph says what it is of") {
    const std::string cpu = to_svg(profile_of(ProfileType::cpu));
    CHECK(cpu.find("5 samples in 2.00s at 50 Hz, from 1970-01-01T00:00:10.0Z") !=
          std::string::npos);
    CHECK(cpu.find("<title>python 3 (5 samples, 100.00 %)</title>") != std::string::npos);
    CHECK(cpu.find("<title>main;1 (") != std::string::npos);
    CHECK(cpu.find("<title>vfs_read_[k] (") != std::string::npos);
    CHECK(to_svg(profile_of(ProfileType::offcpu)).find("<title>main (2.00ms, 100.00 %)") !=
          std::string::npos);
    CHECK(to_svg(Profile()).find("Nothing of this kind") != std::string::npos);
    CHECK(to_format(profile_of(ProfileType::cpu), ProfileFormat::svg) == cpu);
}
