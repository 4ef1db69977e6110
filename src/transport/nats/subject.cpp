#include "transport/nats/subject.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace dovetail::transport::nats {
namespace {

bool is_space_or_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= 0x20 || byte == 0x7F;
}

const char* fault_of(std::string_view subject) {
  if (subject.empty()) return "it is empty";
  if (std::ranges::any_of(subject, is_space_or_control)) return "it contains a space";
  if (subject.find_first_of("*>") != std::string_view::npos) return "it contains * or >";
  if (subject.starts_with('.') || subject.ends_with('.') ||
      subject.find("..") != std::string_view::npos) {
    return "it has an empty part between two dots";
  }
  if (subject.starts_with('$') || subject.starts_with("_INBOX.")) return "it is the broker's own";
  return nullptr;
}

}  // namespace

std::optional<std::string> problem_of_subject(std::string_view subject) {
  const auto* fault = fault_of(subject);
  if (fault == nullptr) return std::nullopt;
  return "the subject \"" + core::printable(core::trimmed(subject, 200)) +
         "\" is not valid: " + fault;
}

}  // namespace dovetail::transport::nats
