// Every setting of a configuration as text, by its key, to find the differences between two
// configurations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpusnoop::config {

class Values {
public:
    // `key` is the dotted path. The same value has the same text, whether it is in the file or a
    // default.
    void set(std::string key, std::string text);
    // A change of this key takes effect while the exporter runs.
    void set_live(std::string_view key);
    // The command line overrides this key: the file's value has no effect.
    void erase(std::string_view key);

    // In the order in which they were read.
    [[nodiscard]] std::vector<std::string> keys() const;

    // Always equal: a Values only repeats the settings.
    bool operator==(const Values & /*other*/) const { return true; }

private:
    struct Entry {
        std::string key;
        std::string text;
        bool is_live = false;
    };

    [[nodiscard]] const Entry *find(std::string_view key) const;

    friend std::vector<std::string> keys_for_restart(const Values &started, const Values &wanted);

    std::vector<Entry> entries_;
};

// The keys whose value in `wanted` differs from `started`, the exporter's settings at its start,
// and that only a restart changes.
[[nodiscard]] std::vector<std::string> keys_for_restart(const Values &started,
                                                        const Values &wanted);

}  // namespace gpusnoop::config
