#include "server/crypto.hpp"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace dovetail::server {
namespace {

std::string hex_of(const std::array<unsigned char, SHA256_DIGEST_LENGTH>& bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

/// The hash, or an empty text when the setting is unusable.
std::string crypted(const std::string& password, const std::string& setting) {
  const auto data = std::make_unique<crypt_data>();  // 32 KiB
  const char* hash = ::crypt_r(password.c_str(), setting.c_str(), data.get());
  return hash == nullptr || *hash == '*' ? "" : hash;
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex_of(digest);
}

bool is_same_secret(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string random_secret() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw std::runtime_error("the system has no random numbers");
  return hex_of(bytes);
}

bool has_password(const std::string& password_hash, const std::string& password) {
  const auto hash = crypted(password, password_hash);
  const bool is_cut = password.find('\0') != std::string::npos;  // crypt_r() ends at NUL
  return !is_cut && !hash.empty() && is_same_secret(hash, password_hash);
}

bool is_password_hash(const std::string& hash) {
  if (!hash.starts_with("$")) return false;
  const int verdict = ::crypt_checksalt(hash.c_str());
  return verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED;
}

}  // namespace dovetail::server
