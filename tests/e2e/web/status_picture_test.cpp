// The picture of the page at / in the documents.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "exporter/status/assets.h"
#include "exporter/status/status_page.h"
#include "tests/e2e/web/browser.h"
#include "tests/harness/busy_node.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"
#include "tests/harness/process.h"

using namespace harness;

TEST_CASE("a picture of the page at /", "[.picture]") {
    const char *picture = std::getenv("GPUSNOOP_PICTURE");
    REQUIRE(picture != nullptr);
    const TemporaryDirectory directory;
    // As it is without its script: without a server there is nothing to ask.
    write_file(directory / "page.html", gpusnoop::status::page(busy_node_facts()));
    write_file(directory / "status.css", gpusnoop::status::stylesheet().text);
    auto command = e2e::browser(directory);
    const char *size = std::getenv("GPUSNOOP_PICTURE_SIZE");
    command.insert(command.end(), {"--hide-scrollbars", "--screenshot=" + std::string(picture),
                                   "--window-size=" + std::string(size ? size : "1280,2000"),
                                   "file://" + (directory / "page.html").string()});
    if (std::getenv("GPUSNOOP_PICTURE_DARK") != nullptr) {
        command.insert(command.begin() + 1, "--blink-settings=preferredColorScheme=0");
    }
    const Finished finished = run(std::move(command));
    INFO(finished.output);
    CHECK(finished.code == 0);
    CHECK(std::filesystem::file_size(picture) > 10'000);
}
