// What the machine around the exporter does to it: a full disk, paths that lead elsewhere.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/e2e/image.h"
#include "tests/e2e/prometheus.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace fs = std::filesystem;

TEST_CASE("a full disk under the log loses its lines, counted, and nothing else", "[e2e]") {
    require_bpf();
    const TemporaryDirectory directory;
    write_file(directory / "config.yaml", "functions: {enabled: false}\n" + with_all_histograms());
    const std::uint16_t port = e2e::free_port();
    Process exporter({"sh", "-c", "exec \"$@\" 2>/dev/full", "sh", exporter_binary(),
                      "--config.file=" + (directory / "config.yaml").string(),
                      "--web.listen-address=127.0.0.1:" + std::to_string(port)});
    const auto page = [&] { return Page(http(port, "/metrics").body); };
    eventually("the exporter to be ready", [&] { return http(port, "/-/ready").status == 200; });

    Process holder({standin("workload"), "--iterations", "0", "--hold", "--name", "holder"});
    // Its log is gone. Other programs of the machine have libraries of their own.
    eventually("the exporter to attach", [&] {
        const std::string html = http(port, "/").body;
        const std::size_t row = html.find(standin("12/libcudart.so.12"));
        return row != std::string::npos &&
               html.substr(row, html.find('\n', row) - row).find("ok\">attached</b> by cuda") !=
                   std::string::npos;
    });
    fs::create_directory(directory / "truth");
    // It is there until its kernels have names.
    Process traced({standin("workload"), "--iterations", "200", "--name", "full_disk", "--hold"},
                   {{"STANDIN_TRUTH_DIR", (directory / "truth").string()}});
    traced.wait_for_output("holding");
    const auto truth = truth::sum(truth::read_truth(directory / "truth"));
    REQUIRE(truth.launches > 0);
    eventually("the calls to be counted", [&] {
        return page().sum("gpusnoop_cuda_kernel_launches_total", {{"comm", "full_disk"}}) ==
               static_cast<double>(truth.launches);
    });
    check_counters(page(), truth, "full_disk");
    // At least that it listens, and to what it has attached.
    CHECK(page().sum("gpusnoop_log_lines_lost_total") >= 2);
    exporter.signal(SIGTERM);
    CHECK(exporter.wait() == 0);
}

TEST_CASE("a container's symbolic links do not lead the exporter out of it", "[e2e]") {
    require_bpf();
    const TemporaryDirectory image;
    e2e::make_image(image.path());
    // A file of the host that no process uses, and that the container cannot see.
    const TemporaryDirectory host;
    const fs::path secret = host / "libcudart.so.12";
    fs::copy_file(standin("12/libcudart.so.12"), secret);
    e2e::Container container(
        "mount -t tmpfs none \"$1\" && cp -a " + image.path().string() + "/. \"$1\"", "inside");
    container.wait_until_ready();
    // What is mapped has no name any more, and its path leads to the host's file in each way.
    const fs::path library = container.outside(e2e::image_library);
    const fs::path driver = container.outside(e2e::image_driver);
    const std::string of_host = "/proc/" + std::to_string(::getpid()) + "/root";
    fs::remove(library);
    SECTION("through /proc") {
        fs::create_symlink(of_host + secret.string(), library);
    }
    SECTION("as the host names it") {
        fs::create_symlink(secret, library);
    }
    SECTION("by a directory on the way") {
        fs::remove(driver);
        fs::remove(library.parent_path());
        fs::create_symlink(of_host + host.path().string(), library.parent_path());
    }
    // Without CAP_CHECKPOINT_RESTORE, a mapped file is opened by its path.
    const Exporter exporter(
        "", {"setpriv", "--bounding-set=-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"});
    eventually("the library to be refused", [&] {
        return exporter.log().find("msg=\"cannot open a library\" library=" +
                                   library.filename().string()) != std::string::npos;
    });
    CHECK(exporter.scrape().sum("gpusnoop_probe_attach_failures_total",
                                {{"probe", "cuda"}, {"reason", "open"}}) > 0);
    CHECK(exporter.times_attached_to(secret) == 0);
    container.go();
    CHECK(exporter.scrape().sum("gpusnoop_probe_up", {{"probe", "cuda"}}) == 1);
}
