#include "config/read_text.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace dovetail::config {
namespace {

constexpr std::size_t largest_file = std::size_t{16} << 20;

[[noreturn]] void fail(int code) {
  throw std::system_error(code, std::generic_category());
}

}  // namespace

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) fail(EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) fail(errno);
  std::string text;
  for (std::array<char, 4096> part{}; file && text.size() <= largest_file;) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) fail(errno);
  if (text.size() > largest_file) fail(EFBIG);
  return text;
}

}  // namespace dovetail::config
