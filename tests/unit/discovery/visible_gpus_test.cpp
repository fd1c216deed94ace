#include "exporter/discovery/gpus/visible_gpus.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "exporter/discovery/gpus/gpu_evidence.h"
#include "tests/unit/discovery/made_up_gpus.h"

using namespace gpusnoop::discovery;

namespace {

constexpr auto kUnknown = std::nullopt;
const std::string kMig1 = "MIG-11111111-d72c-4106-c12f-20bd9faed9f6";
const std::string kMig2 = "MIG-22222222-d72c-4106-c12f-20bd9faed9f6";

std::vector<Gpu> different_gpus() {
    auto result = gpus();
    result[2].name = "NVIDIA L4";
    return result;
}

std::string by_address(const std::string &list) {
    return with_list(list) + block({"CUDA_DEVICE_ORDER=PCI_BUS_ID"});
}

void check(const std::string &environment, const std::vector<Gpu> &seen, const Expected &expected,
           std::optional<unsigned> only = std::nullopt) {
    CAPTURE(environment);
    const auto visible = VisibleGpus::of(environment, seen);
    CHECK(devices(visible, expected.size()) == expected);
    CHECK(visible.only() == only);
}

}  // namespace

TEST_CASE("without the variable all GPUs are visible", "[visible_gpus]") {
    check(block({"PATH=/bin", "HOME=/"}), gpus(), {0, 1, 2, 3});
    check("", gpus(), {0, 1, 2, 3});
    check("", gpus({1, 3}), {1, 3});
    check("", gpus({3}), {3}, 3);
    check("", {}, {});
    // Other names that begin or end like it, and the variable of container runtimes.
    check(block({"CUDA_VISIBLE_DEVICES_=1", "XCUDA_VISIBLE_DEVICES=1", "cuda_visible_devices=1",
                 "NVIDIA_VISIBLE_DEVICES=2", "A=CUDA_VISIBLE_DEVICES=1"}),
          gpus(), {0, 1, 2, 3});
}

TEST_CASE("a list of Slurm's that is too long is none", "[visible_gpus]") {
    CHECK(slurm_minors("0,2-3") == Minors{0, 2, 3});
    CHECK(slurm_minors("0-255")->size() == 256);
    CHECK_FALSE(slurm_minors("0-256"));
    // A process writes its environment itself: a list of a megabyte took half a minute to read.
    std::string list = "0-255";
    while (list.size() < 4'096) {
        list += ",0-255";
    }
    CHECK_FALSE(slurm_minors(list));
}

TEST_CASE("lists of numbers", "[visible_gpus]") {
    check(with_list("2,1"), gpus(), {2, 1});
    check(with_list("3"), gpus(), {3}, 3);
    check(with_list("0,1,2,3"), gpus(), {0, 1, 2, 3});
    check(with_list("1,0"), gpus({2, 3}), {3, 2});
    // As strtoul reads them.
    check(with_list(" 2,\t1 ,+3"), gpus(), {2, 1, 3});
    check(with_list("1gpu2,2ampere"), gpus(), {1, 2});
    // The first of two counts, as for getenv.
    check(with_list("2") + with_list("1"), gpus(), {2}, 2);
}

TEST_CASE("an empty list shows no GPU", "[visible_gpus]") {
    for (const std::string list : {"", "-1", "NoDevFiles"}) {
        check(with_list(list), gpus(), {});
        check(with_list(list), gpus({3}), {});
    }
}

TEST_CASE("a list ends before the first invalid entry", "[visible_gpus]") {
    check(with_list("0,2,-1,1"), gpus(), {0, 2});
    check(with_list("1,4,0"), gpus(), {1}, 1);
    check(with_list("1,2,0"), gpus({2, 3}), {3}, 3);
    check(with_list("2,,1"), gpus(), {2}, 2);
    check(with_list("2,"), gpus(), {2}, 2);
    check(with_list(",2"), gpus(), {});
    check(with_list("2,x,1"), gpus(), {2}, 2);
    check(with_list("2,99999999999999999999999,1"), gpus(), {2}, 2);
    check(with_list("2,+-1"), gpus(), {2}, 2);
    check(with_list(kUuidC + ",GPU-77,1"), gpus(), {2}, 2);
    check(with_list(kUuidC + ","), gpus(), {2}, 2);
}

TEST_CASE("a device that is named twice leaves none", "[visible_gpus]") {
    check(with_list("0,0"), gpus(), {});
    check(with_list("0,1,2,01"), gpus(), {});
    check(with_list("0,0"), gpus({3}), {});
    check(with_list(kUuidC + "," + kUuidC), gpus(), {});
    check(with_list(kUuidC + ",GPU-0b"), gpus(), {});
}

TEST_CASE("UUIDs and their beginnings", "[visible_gpus]") {
    check(with_list(kUuidD + "," + kUuidA), gpus(), {3, 0});
    check(with_list(kUuidD), gpus(), {3}, 3);
    check(with_list("GPU-8932f938"), gpus(), {1}, 1);
    check(with_list("GPU-0,GPU-f"), gpus(), {2, 3});
    check(with_list("GPU-0B2C0000-D72C"), gpus(), {2}, 2);
    // Not the only one with this beginning, unless the other is out of sight.
    check(with_list("GPU-8932f93"), gpus(), {});
    check(with_list("GPU-8932f93"), gpus({1, 2}), {1}, 1);
    check(with_list(kUuidA), gpus({1, 2}), {});
    check(with_list(kUuidA + "0"), gpus(), {});
}

TEST_CASE("entries of two kinds", "[visible_gpus]") {
    // Whether CUDA reads the second one is not known, so it cannot be the only one.
    check(with_list("1," + kUuidD), gpus(), {1, kUnknown});
    check(with_list(kUuidD + ",1"), gpus(), {3, kUnknown});
    check(with_list(kUuidD + ", " + kUuidA), gpus(), {3, kUnknown});
    check(with_list(kUuidD + "," + kUuidA + " ,GPU-0"), gpus(), {3, kUnknown});
    check(with_list(kUuidD + "," + kMig1), gpus(), {3, kUnknown});
}

TEST_CASE("a UUID that could not be read", "[visible_gpus]") {
    auto seen = gpus();
    seen[1].uuid.clear();
    check(with_list(kUuidD + "," + kUuidA), seen, {3, 0});
    check(with_list("GPU-f,1"), seen, {kUnknown});  // a beginning of the unread one's too?
    check(with_list("2,1"), seen, {2, 1});
    // No other GPU has it.
    check(with_list(kUuidB + "," + kUuidA), seen, {1, 0});
    seen[0].uuid.clear();
    check(with_list(kUuidD + "," + kUuidB + "," + kUuidC), seen, {3, kUnknown});
}

TEST_CASE("numbers of different GPUs are known in the order of addresses only", "[visible_gpus]") {
    const auto seen = different_gpus();
    check("", seen, Expected(4, kUnknown));
    check(with_list("0,2"), seen, {kUnknown, kUnknown});
    check(with_list("0"), seen, {kUnknown});
    check(with_list(kUuidC + "," + kUuidA), seen, {2, 0});
    check(by_address("2,0"), seen, {2, 0});
    check(block({"CUDA_DEVICE_ORDER=PCI_BUS_ID"}), seen, {0, 1, 2, 3});
    for (const std::string order : {"FASTEST_FIRST", "", "pci_bus_id", "PCI_BUS_ID ", "PCI"}) {
        check(block({"CUDA_DEVICE_ORDER=" + order}), seen, Expected(4, kUnknown));
        check(block({"CUDA_DEVICE_ORDER=" + order}), gpus(), {0, 1, 2, 3});
    }
    // Lists end, and repeat, as if they were known.
    check(with_list("0,4"), seen, {kUnknown});
    check(with_list("0,0"), seen, {});
    // What a container sees may be equal.
    check(with_list("1,0"), {seen[1], seen[3]}, {3, 1});
    check(with_list("1,0"), {seen[1], seen[2]}, {kUnknown, kUnknown});
    check(with_list("0"), {seen[2]}, {2}, 2);
}

TEST_CASE("models that could not be read may be different", "[visible_gpus]") {
    auto seen = gpus();
    for (Gpu &gpu : seen) {
        gpu.name.clear();
    }
    check(with_list("0,1"), seen, {kUnknown, kUnknown});
    check(by_address("0,1"), seen, {0, 1});
}

TEST_CASE("instances of divided GPUs", "[visible_gpus]") {
    auto seen = gpus();
    const std::string old_c = "MIG-" + kUuidC;
    SECTION("named by the GPU") {
        check(with_list(old_c + "/1/0"), seen, {2}, 2);
        check(with_list(old_c + "/1/0," + old_c + "/2/0"), seen, {2, 2}, 2);
        check(with_list(old_c + "/1/0,MIG-GPU-ffff/13/2"), seen, {2, 3});
        check(with_list(old_c + "/1/0," + old_c + "/1/0"), seen, {});
        check(with_list("MIG-GPU-77/1/0"), seen, {});
        check(with_list("MIG-GPU-8932f93/1/0"), seen, {});
        for (const std::string ids : {"", "/", "/1", "/1/", "//0", "/1/0/0", "/x/0", "/1/-1"}) {
            check(with_list(old_c + ids), seen, {kUnknown});
        }
    }
    SECTION("named by a UUID of their own") {
        check(with_list(kMig1), seen, {kUnknown});
        check(with_list(kMig1 + "," + kMig2), seen, {kUnknown, kUnknown});
        check(with_list(kMig1), gpus({3}), {3}, 3);
        check(with_list(kMig1 + "," + kMig2), gpus({3}), {3, 3}, 3);
    }
    SECTION("of the only GPU that is divided") {
        seen[1].mig = true;
        check(with_list(kMig1 + "," + kMig2), seen, {1, 1}, 1);
        seen[2].mig = true;
        check(with_list(kMig1), seen, {kUnknown});
    }
    SECTION("without a name: which of them, and what is left out, is not known") {
        seen[1].mig = true;
        check("", seen, Expected(4, kUnknown));
        check(with_list("0,1"), seen, {kUnknown, kUnknown});
        check(by_address("0"), seen, {kUnknown});
        check(with_list(kUuidA + "," + kUuidB), seen, {kUnknown, kUnknown});
        check(with_list(kUuidB), seen, {1}, 1);
        check("", {seen[1]}, {1}, 1);
        check(with_list("0"), {seen[1]}, {1}, 1);
    }
}

TEST_CASE("an only GPU is every device", "[visible_gpus]") {
    const auto seen = gpus({3});
    const std::vector<Gpu> unread{Gpu{3, "", "", "", -1, false}};
    check("", unread, {3}, 3);
    for (const std::string &list : {std::string("0"), kUuidD, kMig1, "MIG-" + kUuidD}) {
        check(with_list(list), seen, {3}, 3);
        check(with_list(list), unread, {3}, 3);
    }
}

TEST_CASE("any bytes are read as an environment", "[visible_gpus]") {
    std::mt19937 random(20240601);  // the same every time
    const std::vector<std::string> pieces{"CUDA_VISIBLE_DEVICES=",
                                          "CUDA_DEVICE_ORDER=",
                                          "PCI_BUS_ID",
                                          "GPU-",
                                          "MIG-",
                                          "MIG-GPU-",
                                          kUuidA,
                                          kUuidB,
                                          kMig1,
                                          "/1/0",
                                          "/",
                                          ",",
                                          "-1",
                                          "0",
                                          "1",
                                          "3",
                                          " ",
                                          "+",
                                          "\xff",
                                          "=",
                                          std::string(1, '\0'),
                                          std::string(1, '\0')};
    auto seen = gpus();
    seen[3].uuid.clear();
    for (int run = 0; run < 20'000; run++) {
        std::string bytes = random() % 2 ? "CUDA_VISIBLE_DEVICES=" : "";
        for (auto length = random() % 12; length > 0; length--) {
            bytes += pieces[random() % pieces.size()];
        }
        bytes += '\0';
        const auto visible = VisibleGpus::of(bytes, seen);
        for (unsigned ordinal = 0; ordinal < 8; ordinal++) {
            const auto index = visible.host_index(ordinal);
            if (index && *index >= seen.size()) {
                FAIL("a GPU that is not there, from " << bytes);
            }
        }
    }
}

TEST_CASE("a list has a bound", "[visible_gpus]") {
    std::string list;
    for (int instance = 0; instance < 100'000; instance++) {
        list += "MIG-" + kUuidC + "/1/" + std::to_string(instance) + ",";
    }
    const auto visible = VisibleGpus::of(with_list(list), gpus());
    CHECK(visible.host_index(255) == 2u);
    CHECK_FALSE(visible.host_index(256));
    CHECK_FALSE(visible.only());
}
