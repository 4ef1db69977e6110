#include "server/api/redact.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dovetail::server::api {
namespace {

bool is_space(char each) {
  return each == ' ' || each == '\t' || each == '\n' || each == '\r';
}

char lower(char each) {
  return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
}

/// Walks through a text that is valid JSON.
class Redaction {
 public:
  Redaction(std::string_view text, const std::vector<std::string>& names)
      : text_(text), names_(names) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '"') {
        out_.push_back(text_[at_++]);
        continue;
      }
      const auto token = string_token();
      out_ += token;
      copy_spaces();
      if (at_ < text_.size() && text_[at_] == ':') {
        out_.push_back(text_[at_++]);
        copy_spaces();
        if (is_redacted(nlohmann::json::parse(token).get<std::string>(), names_)) {
          skip_value();
          out_ += '"' + std::string{redacted_mark} + '"';
        }
      }
    }
    return std::move(out_);
  }

 private:
  void copy_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) out_.push_back(text_[at_++]);
  }

  std::string_view string_token() {
    const auto begin = at_++;
    while (text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void skip_value() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char each = text_[at_];
      if (depth == 0 && (each == ',' || each == '}' || each == ']')) return;
      if (each == '"') {
        string_token();
      } else {
        if (each == '{' || each == '[') ++depth;
        if (each == '}' || each == ']') --depth;
        ++at_;
      }
      if (depth == 0 && (each == '"' || each == '}' || each == ']')) return;
    }
  }

  std::string_view text_;
  const std::vector<std::string>& names_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

bool is_redacted(std::string_view name, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& each) {
    return std::ranges::equal(name, each, {}, lower, lower);
  });
}

std::string redacted(const std::string& payload, const std::vector<std::string>& names) {
  if (names.empty() || !nlohmann::json::accept(payload)) return payload;
  return Redaction{payload, names}.run();
}

}  // namespace dovetail::server::api
