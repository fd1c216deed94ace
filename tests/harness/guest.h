// Features that only the guests of tests/vm have: see tests/vm/README.md.
#pragma once

#include <cstdint>
#include <string>

namespace harness {

// The module of tests/vm/module, loaded as long as this lives.
class TestModule {
public:
    TestModule();
    ~TestModule();
    TestModule(const TestModule &) = delete;
    TestModule &operator=(const TestModule &) = delete;

    // The module's source lists the commands.
    void command(const std::string &text) const;
    struct Answer {
        int result = 0;
        std::uint32_t value = 0;
    };
    // The value of the last read of a device.
    [[nodiscard]] Answer answer() const;
};

}  // namespace harness
