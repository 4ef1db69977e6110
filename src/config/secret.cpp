// Secrets that are in files of their own.
#include <sys/stat.h>

#include <stdexcept>
#include <system_error>

#include "config/given.hpp"
#include "config/read_text.hpp"

namespace dovetail::config {
namespace {

void remove_last(std::string& text, char end) {
  if (text.ends_with(end)) text.pop_back();
}

}  // namespace

bool everybody_can_read(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && (found.st_mode & S_IROTH) != 0;
}

std::string readable_secret(const std::string& path) {
  return path + " contains a secret, and every user can read it: chmod o-r";
}

std::string read_secret(const std::string& path, std::vector<std::string>& warnings) {
  std::string text;
  try {
    text = read_text(path);
  } catch (const std::system_error& error) {
    throw std::invalid_argument(path + " cannot be read: " + error.code().message());
  }
  remove_last(text, '\n');
  remove_last(text, '\r');
  if (text.empty()) throw std::invalid_argument(path + " is empty");
  if (everybody_can_read(path)) warnings.push_back(readable_secret(path));
  return text;
}

}  // namespace dovetail::config
