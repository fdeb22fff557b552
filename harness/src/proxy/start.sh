# Starts a program that can change only its node's network namespace and the lab's /run. Runs as PID 1 of a PID namespace, in its own mount
# namespace; the arguments are the program and its arguments.
set -u

fail() {
    echo "svclab: the program cannot be confined: $1" >&2
    exit 126
}

# Keeps only devices that store nothing: a disk device could be written to although its file system is read-only.
hide_devices() {
    devices=/run/svclab/dev
    mkdir -p $devices && mount -t tmpfs -o nosuid,mode=755 tmpfs $devices || return
    for name in null zero full random urandom tty; do
        [ -c /dev/$name ] || continue
        : >$devices/$name && mount -o bind,ro /dev/$name $devices/$name || return
    done
    ln -s /proc/self/fd $devices/fd && ln -s fd/0 $devices/stdin && ln -s fd/1 $devices/stdout &&
        ln -s fd/2 $devices/stderr && mount --move $devices /dev
}
hide_devices || fail "the devices of the host cannot be hidden"

# Network settings stay writable. In a container with a masked /proc, the kernel does not allow a new mount.
mount -t proc proc /proc 2>/dev/null
mount --bind /proc/sys/net /proc/sys/net 2>/dev/null

# Calls a function for each file system that is writable but must not be, with its ID and folder.
for_writable() {
    while read -r id _ _ _ folder options _; do
        case $folder in /proc/sys/net | /run | /run/*) continue ;; esac
        case $options in ro | ro,*) continue ;; esac
        # Mount points are written with octal escapes.
        case $folder in *\\*) folder=$(printf '%b.' "$folder") folder=${folder%.} ;; esac
        "$1" "$id" "$folder"
    done </proc/self/mountinfo
}
make_read_only() { mount -o remount,bind,ro "$2" 2>/dev/null; }
# A file system is out of reach if another one is mounted over it.
check_out_of_reach() {
    [ -d "$2" ] || [ -f "$2" ] || return
    grep -q "^mnt_id:[[:blank:]]*$1\$" /proc/self/fdinfo/3 3<"$2" && fail "$2 stays writable"
}
for_writable make_read_only
for_writable check_out_of_reach

# Without the capabilities to mount, enter namespaces and load modules, the program cannot undo any of this.
exec setpriv --bounding-set=-all,+net_admin,+net_raw,+net_bind_service --inh-caps=-all --no-new-privs -- "$@"
