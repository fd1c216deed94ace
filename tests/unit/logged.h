// What the program writes to its log.
#pragma once

#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <string>

#include "exporter/base/log.h"

namespace gpusnoop::test {

// What the log gets while `act` runs.
template <typename Act>
std::string logged(const Act &act) {
    std::FILE *const file = std::tmpfile();
    REQUIRE(file != nullptr);
    log::setup(log::Level::info, log::Format::logfmt, file);
    act();
    spdlog::default_logger()->flush();
    log::setup(log::Level::info, log::Format::logfmt);
    std::rewind(file);
    std::string text(16 * 1024, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

}  // namespace gpusnoop::test
