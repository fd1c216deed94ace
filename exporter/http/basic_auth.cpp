#include "exporter/http/basic_auth.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gpusnoop::http {

namespace {

constexpr std::size_t max_login = 1'024;

// Decodes the text after "Basic ".
std::optional<std::string> decode_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0 || text.size() > max_login) {
        return std::nullopt;
    }
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    const auto is_digit = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '/';
    };
    // OpenSSL's decoder accepts spaces and misplaced padding.
    if (!std::ranges::all_of(text.substr(0, text.size() - padding), is_digit)) {
        return std::nullopt;
    }
    std::string decoded(text.size() / 4 * 3, '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char *>(decoded.data()),
                                     reinterpret_cast<const unsigned char *>(text.data()),
                                     static_cast<int>(text.size()));
    if (size < 0) {
        return std::nullopt;
    }
    decoded.resize(static_cast<std::size_t>(size) - padding);
    return decoded;
}

std::optional<std::pair<std::string, std::string>> parse_login(std::string_view header) {
    constexpr std::string_view scheme = "basic ";
    const bool is_basic =
        header.size() > scheme.size() &&
        std::ranges::equal(header.substr(0, scheme.size()), scheme, [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) == b;
        });
    if (!is_basic) {
        return std::nullopt;
    }
    header.remove_prefix(scheme.size());
    while (header.starts_with(' ')) {
        header.remove_prefix(1);
    }
    while (header.ends_with(' ')) {
        header.remove_suffix(1);
    }
    const auto decoded = decode_base64(header);
    const std::size_t colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) {
        return std::nullopt;
    }
    return std::pair(decoded->substr(0, colon), decoded->substr(colon + 1));
}

bool matches(const std::string &password, const std::string &hash) {
    const auto data = std::make_unique<crypt_data>();
    const char *made = crypt_r(password.c_str(), hash.c_str(), data.get());
    const std::string_view result = made == nullptr ? "" : made;
    const bool same =
        result.size() == hash.size() && CRYPTO_memcmp(result.data(), hash.data(), hash.size()) == 0;
    OPENSSL_cleanse(data.get(), sizeof(crypt_data));
    return same;
}

std::string cost_of(const std::string &hash) {
    return hash.substr(4, 2);
}

}  // namespace

BasicAuth::BasicAuth(std::map<std::string, std::string> users) : users_(std::move(users)) {
    std::string cost = "04";
    for (const auto &[name, hash] : users_) {
        cost = std::max(cost, cost_of(hash));
    }
    nobody_ = "$2b$" + cost + "$" + std::string(53, '.');
    if (RAND_bytes(secret_.data(), static_cast<int>(secret_.size())) != 1) {
        throw std::runtime_error("there are no random numbers");
    }
}

BasicAuth::Digest BasicAuth::digest(const std::string &user, const std::string &password) const {
    const std::string login = std::to_string(user.size()) + ":" + user + password;
    Digest digest{};
    unsigned int size = 0;
    HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
         reinterpret_cast<const unsigned char *>(login.data()), login.size(), digest.data(), &size);
    return digest;
}

bool BasicAuth::remembers(const Digest &login) const {
    const std::lock_guard lock(remembered_mutex_);
    return std::ranges::any_of(remembered_, [&](const Digest &known) {
        return CRYPTO_memcmp(known.data(), login.data(), login.size()) == 0;
    });
}

BasicAuth::Verdict BasicAuth::recall(std::string_view authorization) const {
    if (!is_needed()) {
        return Verdict::allowed;
    }
    const auto login = parse_login(authorization);
    if (!login) {
        return Verdict::denied;
    }
    return remembers(digest(login->first, login->second)) ? Verdict::allowed : Verdict::unknown;
}

bool BasicAuth::check(std::string_view authorization) {
    const std::lock_guard checking(checking_mutex_);
    if (const Verdict known = recall(authorization); known != Verdict::unknown) {
        return known == Verdict::allowed;  // another thread may have checked it meanwhile
    }
    const auto login = parse_login(authorization);
    const auto &[user, password] = *login;
    const auto found = users_.find(user);
    const bool is_right = matches(password, found == users_.end() ? nobody_ : found->second);
    // crypt_r would read the password only up to a NUL.
    if (!is_right || found == users_.end() || password.find('\0') != std::string::npos) {
        return false;
    }
    const std::lock_guard lock(remembered_mutex_);
    if (remembered_.size() >= max_remembered) {
        remembered_.pop_front();
    }
    remembered_.push_back(digest(user, password));
    return true;
}

}  // namespace gpusnoop::http
