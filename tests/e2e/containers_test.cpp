// Libraries that the exporter itself cannot see: in other mount namespaces, and in the layers that
// containers share.
#include <signal.h>
#include <sys/mount.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/e2e/image.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

// Enough that nothing is folded.
const std::string containers_budget = "series:\n  budget: 100000\n";

// The fewest capabilities that attach to functions and look into other namespaces.
const std::vector<std::string> fewest_capabilities = {
    "setpriv", "--bounding-set=-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"};

void containers_check_counted(const Exporter &exporter, const e2e::Container &container,
                              const std::string &comm) {
    const auto truth = truth::sum(truth::read_truth(container.outside("/truth")));
    REQUIRE(truth.launches > 0);
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", comm}},
                                        static_cast<double>(truth.launches));
    check_counters(page, truth, comm);
    CHECK(page.sum("gpusnoop_cuda_memory_outstanding_bytes", {{"comm", comm}}) ==
          static_cast<double>(truth.all_memory().outstanding_bytes));
}

// Both libraries of an image whose root is seen from here at `root`.
void wait_until_attached(const Exporter &exporter, const std::filesystem::path &root) {
    exporter.wait_until_attached_to(root / (e2e::image_library + 1));
    exporter.wait_until_attached_to(root / (e2e::image_driver + 1));
}

// A container that has everything in memory, where no other namespace has a path to it.
std::string on_tmpfs(const TemporaryDirectory &image) {
    return "mount -t tmpfs none \"$1\" && cp -a " + image.path().string() + "/. \"$1\"";
}

// An image that containers share.
class SharedImage {
public:
    SharedImage() {
        require_bpf();
        if (read_file("/proc/filesystems").find("\toverlay\n") == std::string::npos) {
            missing("overlayfs");
        }
        e2e::make_image(path());
    }

    [[nodiscard]] std::filesystem::path path() const { return image_.path(); }
    [[nodiscard]] std::filesystem::path library() const {
        return path() / (e2e::image_library + 1);
    }
    // What the container of this name writes.
    [[nodiscard]] std::filesystem::path layer_of(const std::string &container) const {
        return layers_ / container / "upper";
    }
    // Mounts the image with such a layer.
    [[nodiscard]] std::string on_overlay(const std::string &container) const {
        const std::filesystem::path upper = layer_of(container);
        const std::filesystem::path work = layers_ / container / "work";
        std::filesystem::create_directories(upper);
        std::filesystem::create_directories(work);
        return "mount -t overlay none -o lowerdir=" + path().string() +
               ",upperdir=" + upper.string() + ",workdir=" + work.string() + " \"$1\"";
    }

private:
    TemporaryDirectory image_;
    TemporaryDirectory layers_;
};

// An overlay of the image outside of containers, which is gone at the end of the test.
class OutsideMount {
public:
    explicit OutsideMount(const SharedImage &image) {
        REQUIRE(run({"sh", "-c", image.on_overlay("outside"), "sh", path()}).code == 0);
    }
    ~OutsideMount() { ::umount2(path().c_str(), MNT_DETACH); }
    OutsideMount(const OutsideMount &) = delete;
    OutsideMount &operator=(const OutsideMount &) = delete;

    [[nodiscard]] std::string path() const { return root_.path().string(); }
    [[nodiscard]] bool unmount() const { return ::umount2(path().c_str(), 0) == 0; }

private:
    TemporaryDirectory root_;
};

}  // namespace

TEST_CASE("a library in another mount namespace is found and counted", "[e2e][core]") {
    require_bpf();
    // Without CAP_CHECKPOINT_RESTORE, a mapped file is opened by the path that the namespace's root
    // has to it, which a process in a chroot of its own does not know.
    const auto [enter, privileged] =
        GENERATE(std::pair(e2e::Enter::pivot_root, true), std::pair(e2e::Enter::pivot_root, false),
                 std::pair(e2e::Enter::chroot, true));
    CAPTURE(enter, privileged);
    const TemporaryDirectory image;
    e2e::make_image(image.path());
    const auto through = privileged ? std::vector<std::string>{} : fewest_capabilities;
    SECTION("when it is there before the exporter") {
        e2e::Container container(on_tmpfs(image), "inside", enter);
        container.wait_until_ready();
        const Exporter exporter(containers_budget, through);
        wait_until_attached(exporter, container.outside("/"));
        container.go();
        containers_check_counted(exporter, container, "inside");
    }
    SECTION("when it appears while the exporter runs") {
        const Exporter exporter(containers_budget, through);
        e2e::Container container(on_tmpfs(image), "inside", enter);
        container.wait_until_ready();
        wait_until_attached(exporter, container.outside("/"));
        container.go();
        containers_check_counted(exporter, container, "inside");
    }
}

TEST_CASE("two containers of one image share a file, which is attached to once", "[e2e]") {
    const SharedImage image;
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const std::filesystem::path library = image.library();
    const Exporter exporter(containers_budget + "cuda:\n  attach: " + mode + "\n");
    const double functions = exporter.scrape().sum("gpusnoop_probe_attached_functions");

    e2e::Container one(image.on_overlay("one"), "one");
    one.wait_until_ready();
    wait_until_attached(exporter, image.path());
    const double attached = exporter.scrape().sum("gpusnoop_probe_attached_functions");
    CHECK(attached > functions);
    e2e::Container other(image.on_overlay("other"), "other_one");
    other.wait_until_ready();
    // The image's own file too, as a process on the host sees it.
    const TemporaryDirectory host_truth;
    Process host({standin("workload"), "--iterations", "300", "--name", "on_host", "--hold"},
                 {{"STANDIN_TRUTH_DIR", host_truth.path().string()},
                  {"LD_LIBRARY_PATH", library.parent_path().string()}});
    host.wait_for_output("holding");
    one.go();
    other.go();

    containers_check_counted(exporter, one, "one");
    containers_check_counted(exporter, other, "other_one");
    const auto truth = truth::sum(truth::read_truth(host_truth.path()));
    check_counters(exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "on_host"}},
                                     static_cast<double>(truth.launches)),
                   truth, "on_host");
    CHECK(exporter.times_attached_to(library) == 1);
    CHECK(exporter.scrape().sum("gpusnoop_probe_attached_functions") == attached);
}

TEST_CASE("a container that brings its own copy of the library has its own file", "[e2e]") {
    const SharedImage image;
    const Exporter exporter(containers_budget);
    e2e::Container one(image.on_overlay("one"), "one");
    // It writes to the library: overlayfs copies it up.
    e2e::Container other(image.on_overlay("other") + " && touch \"$1\"" + e2e::image_library,
                         "other_one");
    one.wait_until_ready();
    other.wait_until_ready();
    wait_until_attached(exporter, image.path());
    exporter.wait_until_attached_to(image.layer_of("other") / "opt/cuda/libcudart.so.12");
    one.go();
    other.go();
    containers_check_counted(exporter, one, "one");
    containers_check_counted(exporter, other, "other_one");
}

TEST_CASE("a runtime that is linked into a container's program is traced there", "[e2e]") {
    const std::string program = GENERATE("workload_static", "workload_stripped");
    // On an overlay, a program maps another file than the one that it has executed.
    const bool is_overlay = GENERATE(false, true);
    CAPTURE(program, is_overlay);
    const SharedImage image;
    const auto mount = [&](const std::string &container) {
        return is_overlay ? image.on_overlay(container)
                          : "mount --bind " + image.path().string() + " \"$1\"";
    };
    const Exporter exporter(containers_budget);
    // Such a program loads the driver at its first call, and is known by that: so there is one
    // before.
    e2e::Container before(mount("before"), "before", e2e::Enter::pivot_root, program);
    before.wait_until_ready();
    before.go();
    exporter.wait_until_attached_to(image.path() / (e2e::image_driver + 1));
    if (program == "workload_static") {
        exporter.wait_until_attached_to(image.path() / program);
    }
    if (!is_overlay) {  // they write to the same directory
        std::filesystem::remove(image.path() / "go");
        std::filesystem::remove_all(image.path() / "truth");
        std::filesystem::create_directory(image.path() / "truth");
    }
    e2e::Container container(mount("inside"), "inside", e2e::Enter::pivot_root, program);
    container.wait_until_ready();
    container.go();
    const auto truth = truth::sum(truth::read_truth(container.outside("/truth")));
    const Page page = exporter.wait_for("gpusnoop_cuda_kernel_launches_total", {{"comm", "inside"}},
                                        static_cast<double>(truth.launches));
    if (program == "workload_static") {
        check_counters(page, truth, "inside");
    }
    check_outstanding(page, truth);
    CHECK(page.sum("gpusnoop_process_info",
                   {{"comm", "inside"},
                    {"linkage", program == "workload_static" ? "static" : "driver_only"}}) == 1);
}

TEST_CASE("a container's mounts can be unmounted at once, and are let go", "[e2e]") {
    const SharedImage image;
    const std::filesystem::path library = image.library();
    // As a runtime does: it mounts the root outside of the container, too.
    const OutsideMount outside(image);
    const Exporter exporter("discovery: {rescan_interval: 1s}\n");  // and keep: 10m
    {
        e2e::Container container("mount --rbind " + outside.path() + " \"$1\"", "contained");
        container.wait_until_ready();
        wait_until_attached(exporter, image.path());
    }
    // Not busy while the probes are still there.
    CHECK(exporter.times_said_of(library, "detached") == 0);
    CHECK(outside.unmount());
    eventually("the image to be let go", [&] {
        return exporter.times_said_of(library, "detached: no process uses it") == 1;
    });
}

TEST_CASE("an overlay whose programs ran outside of containers can be unmounted soon",
          "[e2e][long][beside]") {
    const SharedImage image;
    const OutsideMount outside(image);
    const Exporter exporter("discovery: {rescan_interval: 1s}\n");
    {
        const std::filesystem::path library = outside.path() + e2e::image_library;
        const Process user({standin("workload"), "--iterations", "0", "--hold"},
                           {{"LD_LIBRARY_PATH", library.parent_path().string()}});
        wait_until_attached(exporter, image.path());
    }
    eventually("it to be unmounted", [&] { return outside.unmount(); });
}
