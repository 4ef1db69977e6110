// Hashes, passwords and random numbers for secrets.
#pragma once

#include <string>
#include <string_view>

namespace dovetail::server {

/// 64 hexadecimal digits in lower case.
[[nodiscard]] std::string sha256_hex(std::string_view text);

/// Takes the same time wherever texts of one length differ.
[[nodiscard]] bool is_same_secret(std::string_view left, std::string_view right);

/// 256 random bits as 64 hexadecimal digits.
[[nodiscard]] std::string random_secret();

/// Whether crypt(3) accepts the password. Takes milliseconds on purpose.
[[nodiscard]] bool has_password(const std::string& password_hash, const std::string& password);

/// Whether crypt(3) knows the method of the hash.
[[nodiscard]] bool is_password_hash(const std::string& hash);

}  // namespace dovetail::server
