#include "exporter/discovery/gpus/gpus.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "exporter/base/text/text.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop::discovery;

namespace {

namespace gpus_fs = std::filesystem;

// A directory in place of /proc/driver/nvidia or of a process's root.
class Tree {
public:
    [[nodiscard]] std::string path() const { return directory_.path().string(); }

    void file(const std::string &name, const std::string &content = "") const {
        gpus_fs::create_directories((directory_ / name).parent_path());
        std::ofstream(directory_ / name, std::ios::binary) << content;
    }
    void directory(const std::string &name) const {
        gpus_fs::create_directories(directory_ / name);
    }
    void link(const std::string &name, const std::string &target) const {
        gpus_fs::create_directories((directory_ / name).parent_path());
        gpus_fs::create_symlink(target, directory_ / name);
    }
    void gpu(const std::string &address, const std::string &content) const {
        file("gpus/" + address + "/information", content);
    }

private:
    harness::TemporaryDirectory directory_;
};

std::string uuid(char digit) {
    std::string text = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    for (char &c : text) {
        c = c == 'x' ? digit : c;
    }
    return text;
}

// The file as the driver 550 writes it.
std::string information(const std::string &model, const std::string &gpu_uuid,
                        const std::string &minor, const std::string &excluded = "No") {
    return "Model: \t\t " + model + "\nIRQ:   \t\t 178\nGPU UUID: \t " + gpu_uuid +
           "\nVideo BIOS: \t 96.00.89.00.01\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
           "DMA Mask: \t 0xfffffffffffff\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t " +
           minor + "\nGPU Firmware: \t 550.54.15\nGPU Excluded:\t " + excluded + "\n";
}

std::vector<unsigned> indices(const std::vector<Gpu> &gpus) {
    std::vector<unsigned> result;
    for (const Gpu &gpu : gpus) {
        result.push_back(gpu.index);
    }
    return result;
}

std::vector<Gpu> three_gpus() {
    std::vector<Gpu> gpus(3);
    for (unsigned i = 0; i < 3; i++) {
        gpus[i].index = i;
        gpus[i].minor = static_cast<int>(i) + 4;
    }
    return gpus;
}

}  // namespace

TEST_CASE("a node without a driver has no GPUs", "[gpus]") {
    const Tree tree;
    CHECK(read_gpus(tree.path()).empty());
    CHECK(read_gpus(tree.path() + "/missing").empty());
    tree.file("gpus", "a file, not a directory");
    CHECK(read_gpus(tree.path()).empty());
}

TEST_CASE("GPUs in the order of their PCI addresses", "[gpus]") {
    const Tree tree;
    tree.gpu("0000:af:00.0", information("NVIDIA H200", uuid('a'), "1"));
    tree.gpu("0000:3b:00.0", information("NVIDIA H200", uuid('b'), "2"));
    tree.gpu("10000:01:00.0", information("NVIDIA L4", uuid('c'), "0"));
    tree.gpu("9002:01:1f.1", information("NVIDIA L4", uuid('d'), "3"));
    const std::vector<Gpu> expected{
        {0, uuid('b'), "00000000:3B:00.0", "NVIDIA H200", 2, false},
        {1, uuid('a'), "00000000:AF:00.0", "NVIDIA H200", 1, false},
        {2, uuid('d'), "00009002:01:1F.1", "NVIDIA L4", 3, false},
        {3, uuid('c'), "00010000:01:00.0", "NVIDIA L4", 0, false},
    };
    CHECK(read_gpus(tree.path()) == expected);
}

TEST_CASE("a GPU that cannot be read keeps its index", "[gpus]") {
    const Tree tree;
    tree.gpu("0000:01:00.0", information("Unknown", uuid('?'), "0"));
    tree.directory("gpus/0000:02:00.0");
    tree.gpu("0000:03:00.0", "");
    tree.gpu("0000:04:00.0", information("NVIDIA L4", uuid('4'), "3"));
    const std::vector<Gpu> expected{
        {0, "", "00000000:01:00.0", "", 0, false},
        {1, "", "00000000:02:00.0", "", -1, false},
        {2, "", "00000000:03:00.0", "", -1, false},
        {3, uuid('4'), "00000000:04:00.0", "NVIDIA L4", 3, false},
    };
    CHECK(read_gpus(tree.path()) == expected);
}

TEST_CASE("an excluded GPU has no index", "[gpus]") {
    const Tree tree;
    tree.gpu("0000:01:00.0", information("NVIDIA L4", uuid('1'), "0", "Yes"));
    tree.gpu("0000:02:00.0", "Device Minor: \t 1\nBlacklisted:\t Yes\n");
    tree.gpu("0000:03:00.0", "Device Minor: \t 2\nBlacklisted:\t No\n");
    const auto gpus = read_gpus(tree.path());
    REQUIRE(gpus.size() == 1);
    CHECK(gpus[0].index == 0);
    CHECK(gpus[0].minor == 2);
}

TEST_CASE("a GPU with instances is divided", "[gpus]") {
    const Tree tree;
    tree.gpu("0000:01:00.0", information("NVIDIA H200", uuid('1'), "7"));
    tree.gpu("0000:02:00.0", information("NVIDIA H200", uuid('2'), "0"));
    tree.gpu("0000:03:00.0", information("NVIDIA H200", uuid('3'), "?"));
    tree.file("capabilities/gpu7/mig/gi3/ci0/access", "DeviceFileMinor: 30\n");
    tree.file("capabilities/gpu0/mig/config");
    tree.directory("capabilities/gpu-1/mig/gi0");
    const auto gpus = read_gpus(tree.path());
    REQUIRE(gpus.size() == 3);
    CHECK(gpus[0].mig);
    CHECK_FALSE(gpus[1].mig);
    CHECK_FALSE(gpus[2].mig);
}

TEST_CASE("the device nodes of a GPU's instances", "[gpus]") {
    const Tree tree;
    tree.file("nvidia/gpus/0000:01:00.0/information", information("NVIDIA H200", uuid('1'), "1"));
    tree.file("nvidia/gpus/0000:02:00.0/information", information("NVIDIA H200", uuid('2'), "0"));
    tree.file("nvidia/gpus/0000:03:00.0/information", information("NVIDIA H200", uuid('3'), "?"));
    tree.file("nvidia-caps/mig-minors",
              "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"
              "gpu1/gi0/ci0/access 139\ngpu1/gi0/access 138\ngpu-1/gi0/access 7\n"
              "gpu1/gi1\ngpu1 8\ngpu1/gi1/access x\n");
    const auto gpus = read_gpus(tree.path() + "/nvidia");
    REQUIRE(gpus.size() == 3);
    CHECK(gpus[0].capabilities == std::vector{138, 139});
    CHECK(gpus[1].capabilities == std::vector{3, 4});
    CHECK(gpus[2].capabilities.empty());
}

TEST_CASE("names that are no PCI address are no GPUs", "[gpus]") {
    const Tree tree;
    for (const std::string name :
         {"", "x", "0000", "0000:01", "0000:01:00", "0000:01:00.", "0000:01:00.8", "0000:01:20.0",
          "0000:100:00.0", "100000000:01:00.0", "0000:01:00.0 ", " 0000:01:00.0", "0000:01:00.0.0",
          "0000:-1:00.0", "0000::00.0", ":::.", "0000:01:00:0", "\xff\xfe"}) {
        tree.directory("gpus/" + name);
    }
    CHECK(read_gpus(tree.path()).empty());
}

TEST_CASE("garbage in a GPU's file", "[gpus]") {
    const Tree tree;
    SECTION("bytes that are no text") {
        tree.gpu("0000:01:00.0",
                 "Model: \xff\x01\"a\\\nGPU UUID: \xc3\nDevice Minor: \xff\n::\n:\n\n" +
                     std::string(2, '\0'));
        const auto gpus = read_gpus(tree.path());
        REQUIRE(gpus.size() == 1);
        CHECK(gpusnoop::find_invalid_utf8(gpus[0].name) == std::string::npos);
        CHECK(gpus[0].name == "\xef\xbf\xbd\xef\xbf\xbd\"a\\");
        CHECK(gpus[0].uuid.empty());
        CHECK(gpus[0].minor == -1);
    }
    SECTION("a long name is cut, and a long file is not read to its end") {
        tree.gpu("0000:01:00.0", "Model: " + std::string(5000, 'x') + "\n" +
                                     std::string(1 << 20, 'y') + "\nDevice Minor: 5\n");
        const auto gpus = read_gpus(tree.path());
        REQUIRE(gpus.size() == 1);
        CHECK(gpus[0].name == std::string(128, 'x'));
        CHECK(gpus[0].minor == -1);
    }
    SECTION("UUIDs and minors of another form") {
        for (const std::string text : {"GPU-", "GPU-0", "gpu-00000000-0000-0000-0000-000000000000",
                                       "MIG-00000000-0000-0000-0000-000000000000",
                                       "GPU-00000000-0000-0000-0000-0000000000000",
                                       "GPU-00000000-0000-0000-0000-00000000000g",
                                       "GPU-000000000000-0000-0000-0000-00000000"}) {
            tree.gpu("0000:01:00.0", information("L4", text, "0"));
            CHECK(read_gpus(tree.path()).at(0).uuid.empty());
        }
        for (const std::string text : {"", "-1", "-7", "1x", "0x1", "99999999999999"}) {
            tree.gpu("0000:01:00.0", information("L4", uuid('1'), text));
            CHECK(read_gpus(tree.path()).at(0).minor == -1);
        }
    }
    SECTION("more than a driver knows") {
        for (int bus = 0; bus < 256; bus++) {
            for (int slot = 0; slot < 2; slot++) {
                char name[32];
                std::snprintf(name, sizeof name, "gpus/0000:%02x:%02x.0", bus, slot);
                tree.directory(name);
            }
        }
        CHECK(read_gpus(tree.path()).empty());
    }
}

TEST_CASE("a container sees the GPUs whose nodes it has", "[gpus]") {
    const Tree root;
    gpusnoop::processes::ProcessReader reader;
    const auto gpus = three_gpus();
    SECTION("some of them, with their indices on the host") {
        root.file("dev/nvidia4");
        root.file("dev/nvidia6");
        root.file("dev/nvidia0");  // no GPU of this node
        root.file("dev/nvidiactl");
        const auto seen = gpus_below(reader, root.path(), gpus);
        REQUIRE(seen);
        CHECK(indices(*seen) == std::vector<unsigned>{0, 2});
    }
    SECTION("a node that is a link is there, wherever it leads") {
        root.link("dev/nvidia5", "/nowhere");
        const auto seen = gpus_below(reader, root.path(), gpus);
        REQUIRE(seen);
        CHECK(indices(*seen) == std::vector<unsigned>{1});
    }
    SECTION("none of them: no driver has made them") {
        root.file("dev/nvidiactl");
        CHECK(gpus_below(reader, root.path(), gpus) == gpus);
    }
    SECTION("no /dev") {
        CHECK(gpus_below(reader, root.path(), gpus) == gpus);
    }
    SECTION("nodes cannot be told without a minor") {
        auto one_unread = gpus;
        one_unread[1].minor = -1;
        root.file("dev/nvidia4");
        CHECK_FALSE(gpus_below(reader, root.path(), one_unread));
    }
    SECTION("no root") {
        CHECK_FALSE(gpus_below(reader, root.path() + "/missing", gpus));
    }
    SECTION("/dev is a file") {
        root.file("dev");
        CHECK_FALSE(gpus_below(reader, root.path(), gpus));
    }
}

TEST_CASE("a container's links do not lead out of its root", "[gpus]") {
    const Tree outside;
    outside.file("nvidia5");
    const Tree root;
    gpusnoop::processes::ProcessReader reader;
    const auto gpus = three_gpus();
    SECTION("absolute: below its own root") {
        root.link("dev", "/real");
        root.file("real/nvidia4");
        const auto seen = gpus_below(reader, root.path(), gpus);
        REQUIRE(seen);
        CHECK(indices(*seen) == std::vector<unsigned>{0});
    }
    SECTION("to a path that is only outside") {
        root.link("dev", outside.path());
        CHECK(gpus_below(reader, root.path(), gpus) == gpus);
    }
    SECTION("upwards") {
        root.link("dev", "../" + gpus_fs::path(outside.path()).filename().string());
        CHECK(gpus_below(reader, root.path(), gpus) == gpus);
    }
    SECTION("in a circle") {
        root.link("dev", "dev");
        CHECK_FALSE(gpus_below(reader, root.path(), gpus));
    }
}
