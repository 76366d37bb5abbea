// SPDX-License-Identifier: Apache-2.0
// Certificates by mbedTLS, with libsodium's randomness, and the file of a store that keeps one.
#include "owner/Certificate.h"

#include "owner/Error.h"

#include "llvm/ADT/ScopeExit.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MBEDTLS_THREADING_C
#error "this mbedTLS is for one thread, and connections over TLS would share keys without locks; run tools/setup"
#endif

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Larger than any of these files, and than what mbedTLS writes for one.
constexpr size_t kFileBytesMost = 16384;

int randomBytes(void *, unsigned char *out, size_t size) {
  randombytes_buf(out, size);
  return 0;
}

/// A key and its certificate, while mbedTLS has them.
struct Pair {
  mbedtls_pk_context key;
  mbedtls_x509_crt certificate;

  Pair() {
    mbedtls_pk_init(&key);
    mbedtls_x509_crt_init(&certificate);
  }
  ~Pair() {
    mbedtls_pk_free(&key);
    mbedtls_x509_crt_free(&certificate);
  }
  Pair(const Pair &) = delete;
  Pair &operator=(const Pair &) = delete;

  std::string der() const { return {reinterpret_cast<const char *>(certificate.raw.p), certificate.raw.len}; }
};

llvm::Error failed(const std::string &doing, const std::string &path) {
  return failure("cannot " + doing + " '" + path + "': " + std::strerror(errno));
}

/// The problem with the text of a file, or an empty text.
std::string read(const std::string &text, Pair &pair) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(text.c_str());
  const size_t size = text.size() + 1; // with its end
  if (mbedtls_x509_crt_parse(&pair.certificate, bytes, size) != 0) {
    return "no certificate as PEM";
  }
  if (pair.certificate.next) {
    return "more than one certificate";
  }
  if (pair.certificate.raw.len > signing::kCertificateBytesMost) {
    return "a certificate of " + std::to_string(pair.certificate.raw.len) + " bytes, expected at most " +
           std::to_string(signing::kCertificateBytesMost);
  }
  if (mbedtls_pk_parse_key(&pair.key, bytes, size, nullptr, 0, randomBytes, nullptr) != 0) {
    return "no secret key as PEM";
  }
  if (mbedtls_pk_check_pair(&pair.certificate.pk, &pair.key, randomBytes, nullptr) != 0) {
    return "a secret key that does not belong to its certificate";
  }
  // As a client will: with the certificate as its own authority. Its dates are the client's matter.
  uint32_t flags = 0;
  mbedtls_x509_crt_verify(&pair.certificate, &pair.certificate, nullptr, signing::kServerName, &flags, nullptr,
                          nullptr);
  constexpr uint32_t dates = MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE;
  return (flags & ~dates) == 0
             ? ""
             : std::string("a certificate that is not its own authority for the name ") + signing::kServerName;
}

llvm::Expected<Certificate> finished(Pair &pair, const signing::SigningKey &owner) {
  Certificate made;
  std::string secret(kFileBytesMost, '\0');
  if (mbedtls_pk_write_key_pem(&pair.key, reinterpret_cast<unsigned char *>(secret.data()), secret.size()) != 0) {
    return failure("the key of the certificate cannot be written as PEM");
  }
  made.keyPem = secret.c_str();
  sodium_memzero(secret.data(), secret.size());
  made.der = pair.der();
  made.pem = signing::pemOf(made.der);
  made.digest = signing::digestOf(made.der);
  made.introduction = signing::write(signing::introduce(owner, made.der));
  return made;
}

/// A new file beside `path` takes its place, or its name where none is there: a reader never sees half of it.
llvm::Error writeFile(const std::string &path, const std::string &text, bool replaces) {
  std::string temporary = path + ".XXXXXX";
  const int file = mkostemp(temporary.data(), O_CLOEXEC); // mode 0600
  if (file < 0) {
    return failed("make", temporary);
  }
  llvm::scope_exit gone([&] { unlink(temporary.c_str()); });
  const bool wrote = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  llvm::Error error = wrote ? llvm::Error::success() : failed("write", temporary);
  close(file);
  if (error) {
    return error;
  }
  // Of two processes that make one at the same time, the first has made it for both.
  const bool named = replaces ? rename(temporary.c_str(), path.c_str()) == 0
                              : link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST;
  if (!named) {
    return failed("make", path);
  }
  const std::string folderPath = path.substr(0, path.rfind('/') + 1);
  const int folder = open(folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  error = folder >= 0 && fsync(folder) == 0 ? llvm::Error::success() : failed("sync", folderPath);
  if (folder >= 0) {
    close(folder);
  }
  return error;
}

/// Empty where there is none.
llvm::Expected<std::string> readFile(const std::string &path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return errno == ENOENT ? llvm::Expected<std::string>("") : failed("open", path);
  }
  llvm::scope_exit closed([&] { close(file); });
  struct stat facts {};
  std::string text(kFileBytesMost, '\0');
  const ssize_t size = fstat(file, &facts) == 0 ? ::read(file, text.data(), text.size()) : -1;
  if (size < 0) {
    return failed("read", path);
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return failure("other users may read the certificate's key '" + path + "'; restrict it with: chmod 600 " + path);
  }
  text.resize(static_cast<size_t>(size));
  return text.empty() ? "an empty file" : text;
}

} // namespace

llvm::Expected<Certificate> makeCertificate(const signing::SigningKey &owner) {
  Pair pair;
  mbedtls_x509write_cert writer;
  mbedtls_x509write_crt_init(&writer);
  llvm::scope_exit freed([&] { mbedtls_x509write_crt_free(&writer); });
  std::array<unsigned char, 16> serial{};
  randomBytes(nullptr, serial.data(), serial.size());
  serial[0] = static_cast<unsigned char>((serial[0] & 0x3f) | 0x40); // a positive number of this size
  const std::string name = std::string("CN=") + signing::kServerName;
  mbedtls_x509_san_list alternative{};
  alternative.node.type = MBEDTLS_X509_SAN_DNS_NAME;
  std::string dnsName = signing::kServerName;
  alternative.node.san.unstructured_name.p = reinterpret_cast<unsigned char *>(dnsName.data());
  alternative.node.san.unstructured_name.len = dnsName.size();
  auto moment = [](const char *date, const char *time) {
    std::string digits = date;
    std::erase(digits, '-');
    return digits + time;
  };
  mbedtls_x509write_crt_set_version(&writer, MBEDTLS_X509_CRT_VERSION_3);
  mbedtls_x509write_crt_set_md_alg(&writer, MBEDTLS_MD_SHA256);
  std::string bytes(signing::kCertificateBytesMost, '\0');
  auto *data = reinterpret_cast<unsigned char *>(bytes.data());
  int size = mbedtls_pk_setup(&pair.key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
  size = size ? size : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(pair.key), randomBytes, nullptr);
  mbedtls_x509write_crt_set_subject_key(&writer, &pair.key);
  mbedtls_x509write_crt_set_issuer_key(&writer, &pair.key);
  size = size ? size : mbedtls_x509write_crt_set_serial_raw(&writer, serial.data(), serial.size());
  size = size ? size : mbedtls_x509write_crt_set_subject_name(&writer, name.c_str());
  size = size ? size : mbedtls_x509write_crt_set_issuer_name(&writer, name.c_str());
  size = size ? size
              : mbedtls_x509write_crt_set_validity(&writer, moment(kCertificateBegin, "000000").c_str(),
                                                   moment(kCertificateEnd, "235959").c_str());
  size = size ? size : mbedtls_x509write_crt_set_basic_constraints(&writer, /*is_ca=*/1, /*max_pathlen=*/-1);
  size = size ? size : mbedtls_x509write_crt_set_subject_alternative_name(&writer, &alternative);
  size = size ? size : mbedtls_x509write_crt_der(&writer, data, bytes.size(), randomBytes, nullptr);
  // It is written to the end of the buffer.
  if (size <= 0 ||
      mbedtls_x509_crt_parse_der(&pair.certificate, data + bytes.size() - size, static_cast<size_t>(size)) != 0) {
    return failure("mbedTLS cannot make a certificate (status " + Twine(size) + ")");
  }
  return finished(pair, owner);
}

std::string certificatePath(const std::string &store) { return store + "/certificate.pem"; }

llvm::Expected<Certificate> openCertificate(const std::string &store, const signing::SigningKey &owner, bool renew) {
  const std::string path = certificatePath(store);
  auto text = renew ? llvm::Expected<std::string>("") : readFile(path);
  if (!text) {
    return text.takeError();
  }
  if (text->empty()) {
    auto made = makeCertificate(owner);
    if (!made) {
      return made.takeError();
    }
    if (llvm::Error error = writeFile(path, made->pem + made->keyPem, renew)) {
      return error;
    }
    text = readFile(path);
    if (!text) {
      return text.takeError();
    }
  }
  Pair pair;
  const std::string problem = read(*text, pair);
  sodium_memzero(text->data(), text->size());
  if (!problem.empty()) {
    return failure("'" + path + "' has " + problem + "; create another one with: sojourn-owner cert --renew");
  }
  return finished(pair, owner);
}

} // namespace sojourn::owner
