// Shared by the raw programs: the command line and the exit code. It contains no code of Dovetail.
#pragma once

#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

namespace raw {

/// The key=value words of the command line.
class Arguments {
 public:
  Arguments(char** first, char** last) {
    for (; first != last; ++first) {
      const std::string word = *first;
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw std::invalid_argument("not key=value: " + word);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::string text(const std::string& key, const std::string& otherwise) {
    const auto found = values_.find(key);
    if (found == values_.end()) return otherwise;
    const auto value = found->second;
    values_.erase(found);
    return value;
  }

  long number(const std::string& key, long otherwise) {
    const auto value = std::stol(text(key, std::to_string(otherwise)));
    if (value < 0) throw std::invalid_argument(key + " is negative");
    return value;
  }

  long positive(const std::string& key, long otherwise) {
    const auto value = number(key, otherwise);
    if (value == 0) throw std::invalid_argument(key + " is zero");
    return value;
  }

  /// Call after all known keys were read. A misspelt key is an error.
  void no_more() const {
    if (!values_.empty()) throw std::invalid_argument("unknown key: " + values_.begin()->first);
  }

 private:
  std::map<std::string, std::string> values_;
};

/// `PROGRAM COMMAND DATABASE key=value...`: the main() of each program.
template <class Dispatch>
int run(const char* program, const char* usage, int count, char** words, const Dispatch& dispatch) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s %s [key=value...]\n", program, usage);
    return 2;
  }
  try {
    Arguments arguments(words + 3, words + count);
    dispatch(words[1], words[2], arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace raw
