// The forms of a profile.
#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
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
    stack.ns = ns;
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
    CHECK(to_folded(Profile()).empty());
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
    CHECK(stack.at("kernel_stack") == Json({"[waits for a CPU]", "vfs_read"}));
    CHECK(stack.at("stack")[1].at("function").is_null());
    CHECK(Json::parse(to_json(profile_of(ProfileType::cpu))).at("frequency") == 50);
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
