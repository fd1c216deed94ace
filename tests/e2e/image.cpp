#include "tests/e2e/image.h"

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/harness/exporter.h"

namespace e2e {

namespace fs = std::filesystem;

namespace {

void copy_into(const fs::path &image, const fs::path &file, const fs::path &as) {
    const fs::path target = image / as.relative_path();
    fs::create_directories(target.parent_path());
    fs::copy_file(file, target);
}

std::string enter_script(Enter enter) {
    return enter == Enter::chroot
               ? "exec chroot \"$1\""
               : "cd \"$1\" && mkdir -p outside && pivot_root . outside && cd / && exec";
}

}  // namespace

void make_image(const fs::path &directory) {
    for (const std::string program : {"workload", "workload_static", "workload_stripped"}) {
        copy_into(directory, harness::standin(program), "/" + program);
    }
    copy_into(directory, harness::standin("12/libcudart.so.12"), image_library);
    copy_into(directory, harness::standin("driver/libcuda.so.1"), image_driver);
    fs::create_directories(directory / "truth");
    const harness::Finished ldd = harness::run({"ldd", harness::standin("workload")});
    REQUIRE(ldd.code == 0);
    std::istringstream words(ldd.output);
    for (std::string word; words >> word;) {
        if (word.starts_with('/') && word.find("libcuda") == std::string::npos) {
            copy_into(directory, word, word);
        }
    }
}

Container::Container(const std::string &mount, const std::string &comm, Enter enter,
                     const std::string &workload)
    : process_({"unshare", "--mount", "sh", "-c",
                mount + " && " + enter_script(enter) + " /" + workload +
                    " --everything --threads 2 --iterations 300 --failures --leak 1000 "
                    "--wait-for-file /go --hold --name " +
                    comm,
                "sh", root_.path().string()},
               {{"STANDIN_TRUTH_DIR", "/truth"},
                {"LD_LIBRARY_PATH", fs::path(image_library).parent_path().string()}}) {}

fs::path Container::outside(const std::string &path) const {
    return "/proc/" + std::to_string(process_.pid()) + "/root" + path;
}

void Container::go() const {
    harness::write_file(outside("/go"), "");
    process_.wait_for_output("holding");
}

}  // namespace e2e
