//! Images and initial file systems that were made before, in the user's cache folder.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::VmError;
use super::boot::{Boot, Made};

/// How many machines the cache keeps: those that were used last.
const KEPT: usize = 8;

const IMAGE: &str = "image";
const INITRAMFS: &str = "initramfs";
const RELEASE: &str = "release";
/// What the name of a folder starts with that is being written.
const UNFINISHED: &str = ".unfinished-";

/// What was made of the same inputs before, or what is made now, and kept if there is a cache folder.
///
/// # Errors
///
/// Those of making it, and if it cannot be written anywhere.
pub(super) fn cached(inputs: &[String], make: impl FnOnce() -> Result<Made, VmError>) -> Result<Boot, VmError> {
    cached_in(folder().as_deref(), inputs, make)
}

fn cached_in(
    cache: Option<&Path>,
    inputs: &[String],
    make: impl FnOnce() -> Result<Made, VmError>,
) -> Result<Boot, VmError> {
    let place = cache.map(|cache| cache.join(key(inputs)));
    if let Some(boot) = place.as_deref().and_then(|place| open(place).ok()) {
        return Ok(boot);
    }
    let made = make()?;
    // Where nothing can be kept, the machine starts from files without a name.
    let kept = place.zip(cache).and_then(|(place, cache)| keep(&made, &place, cache).and_then(|()| open(&place)).ok());
    match kept {
        Some(boot) => Ok(boot),
        None => unnamed(&made).map_err(VmError::NotWritten),
    }
}

/// `$XDG_CACHE_HOME/svclab/kernels`, or the same in `~/.cache`.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("svclab/kernels"))
}

/// The name of what is made of inputs.
fn key(inputs: &[String]) -> String {
    let mut hash = Sha256::new();
    for input in inputs {
        hash.update((input.len() as u64).to_le_bytes());
        hash.update(input);
    }
    HEXLOWER.encode(&hash.finalize()[..16])
}

fn open(place: &Path) -> io::Result<Boot> {
    let release = fs::read_to_string(place.join(RELEASE))?;
    let boot = Boot { image: File::open(place.join(IMAGE))?, initramfs: File::open(place.join(INITRAMFS))?, release };
    // It counts as used now; where that cannot be noted, it is removed earlier.
    let _ = File::options().write(true).open(place.join(RELEASE)).and_then(|file| file.set_modified(SystemTime::now()));
    Ok(boot)
}

/// Keeps what was made; others see all of it, or nothing.
fn keep(made: &Made, place: &Path, cache: &Path) -> io::Result<()> {
    fs::create_dir_all(cache)?;
    remove_unfinished(cache);
    let (unfinished, mut release) = unfinished(cache, || {})?;
    release.write_all(made.release.as_bytes())?;
    for (name, bytes) in [(IMAGE, &made.image), (INITRAMFS, &made.initramfs)] {
        fs::write(unfinished.path().join(name), bytes)?;
    }
    match fs::rename(unfinished.path(), place) {
        // Another process has made the same.
        Err(_) if place.is_dir() => {}
        renamed => renamed?,
    }
    remove_old(cache);
    Ok(())
}

/// A new folder to write in, and the file in it that is locked until all is written. Another process may consider the folder abandoned
/// before it is locked, and remove it: then a new one is created. `unprotected` is called in each moment in which that may happen, for
/// tests.
fn unfinished(cache: &Path, mut unprotected: impl FnMut()) -> io::Result<(TempDir, File)> {
    loop {
        let folder = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(cache)?;
        let file = folder.path().join(RELEASE);
        unprotected();
        let release = match File::create_new(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && cache.is_dir() => continue,
            created => created?,
        };
        unprotected();
        match release.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            // Where files cannot be locked, none is removed as abandoned either.
            _ if file.exists() => return Ok((folder, release)),
            _ if cache.is_dir() => {}
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Removes what killed processes have not finished: the lock of a process ends with it.
fn remove_unfinished(cache: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for place in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes())) {
        let _ = match File::options().write(true).open(place.path().join(RELEASE)) {
            Ok(release) => release.try_lock().map_err(io::Error::from).and_then(|()| fs::remove_dir_all(place.path())),
            // Only an empty folder is removed, where nothing was written before the lock could be taken.
            Err(_) => fs::remove_dir(place.path()),
        };
    }
}

/// Removes all but those that were used last. What another process removes at the same time is gone all the same.
fn remove_old(cache: &Path) {
    let used = |place: PathBuf| {
        let time = fs::metadata(place.join(RELEASE)).and_then(|found| found.modified()).ok()?;
        Some((time, place))
    };
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut all: Vec<(SystemTime, PathBuf)> = entries.filter_map(|entry| used(entry.path())).collect();
    all.sort();
    all.iter().rev().skip(KEPT).for_each(|(_, place)| _ = fs::remove_dir_all(place));
}

fn unnamed(made: &Made) -> io::Result<Boot> {
    let of = |bytes: &[u8]| -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    };
    Ok(Boot { image: of(&made.image)?, initramfs: of(&made.initramfs)?, release: made.release.clone() })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn made(text: &str) -> Made {
        Made { image: b"image".to_vec(), initramfs: text.as_bytes().to_vec(), release: "6.1.0".to_owned() }
    }

    fn initramfs(mut boot: Boot) -> String {
        let mut text = String::new();
        boot.initramfs.read_to_string(&mut text).expect("it was written");
        text
    }

    #[test]
    fn the_same_inputs_are_made_once() {
        let cache = tempfile::tempdir().expect("a folder");
        let inputs = ["a".to_owned(), "b".to_owned()];
        let first = cached_in(Some(cache.path()), &inputs, || Ok(made("first"))).expect("it is made");
        assert_eq!(initramfs(first), "first");
        let again = cached_in(Some(cache.path()), &inputs, || panic!("it was made before")).expect("it is there");
        assert_eq!(again.release, "6.1.0");
        assert_eq!(initramfs(again), "first");
        // Inputs are distinguished, not their text.
        let other = cached_in(Some(cache.path()), &["ab".to_owned()], || Ok(made("other"))).expect("it is made");
        assert_eq!(initramfs(other), "other");
    }

    #[test]
    fn the_cache_does_not_grow_without_end() {
        let cache = tempfile::tempdir().expect("a folder");
        for number in 0..KEPT + 3 {
            cached_in(Some(cache.path()), &[number.to_string()], || Ok(made("x"))).expect("it is made");
        }
        assert_eq!(fs::read_dir(cache.path()).expect("it is there").count(), KEPT);
    }

    #[test]
    fn what_a_killed_process_has_not_finished_is_removed() {
        let cache = tempfile::tempdir().expect("a folder");
        let unfinished = |name: &str| {
            let place = cache.path().join(format!("{UNFINISHED}{name}"));
            fs::create_dir(&place).expect("its own");
            place
        };
        let (_empty, abandoned, written) = (unfinished("empty"), unfinished("abandoned"), unfinished("written"));
        fs::write(abandoned.join(IMAGE), "half").expect("its own");
        fs::write(abandoned.join(RELEASE), "6.1.0").expect("its own");
        let lock = File::create(written.join(RELEASE)).expect("its own");
        lock.try_lock().expect("no one else has it");
        cached_in(Some(cache.path()), &[], || Ok(made("x"))).expect("it is made");
        let mut left: Vec<_> =
            fs::read_dir(cache.path()).expect("it is there").flatten().map(|entry| entry.path()).collect();
        left.sort();
        assert_eq!(left, [written, cache.path().join(key(&[]))]);
    }

    /// Another process takes the first folders for abandoned, before they are locked.
    #[test]
    fn unlocked_folders_are_created_again() {
        let cache = tempfile::tempdir().expect("a folder");
        let mut times = 0;
        let unprotected = || {
            times += 1;
            // The first folder without a file in it, and the second with one.
            if [1, 3].contains(&times) {
                remove_unfinished(cache.path());
            }
        };
        let (folder, release) = unfinished(cache.path(), unprotected).expect("it is created");
        remove_unfinished(cache.path());
        assert!(folder.path().join(RELEASE).is_file());
        assert_eq!(fs::read_dir(cache.path()).expect("it is there").count(), 1);
        drop(release);
        assert_eq!(times, 5);
    }

    #[test]
    fn without_a_cache_a_machine_starts_from_files_without_a_name() {
        assert_eq!(initramfs(cached_in(None, &[], || Ok(made("once"))).expect("it is made")), "once");
        let taken = tempfile::NamedTempFile::new().expect("a file");
        let boot = cached_in(Some(taken.path()), &[], || Ok(made("once"))).expect("it is made");
        assert_eq!(initramfs(boot), "once");
    }
}
